package proto

// The texts that a server sends behind -ERR. Clients compare some of them, so they are NATS's own to the letter.
const (
	TextUnknownOperation    = "Unknown Protocol Operation"
	TextMaxControlLine      = "maximum control line exceeded"
	TextMaxPayload          = "Maximum Payload Violation"
	TextMaxConnections      = "maximum connections exceeded"
	TextMaxAccountConns     = "maximum account active connections exceeded"
	TextMaxSubscriptions    = "maximum subscriptions exceeded"
	TextAuthViolation       = "Authorization Violation"
	TextAuthTimeout         = "Authentication Timeout"
	TextAuthExpired         = "User Authentication Expired"
	TextStaleConnection     = "Stale Connection"
	TextInvalidSubject      = "Invalid Subject"
	TextInvalidPubSubject   = "Invalid Publish Subject"
	TextBadProtocol         = "invalid client protocol"
	TextNoRespondersHeaders = "no responders requires headers support"
	TextThrottled           = "Connection throttling is active. Please try again later."
	TextFailedRegistration  = "Failed Account Registration"
)
