package conn

// Reason is why a connection was closed, in nats-server's words.
type Reason uint8

// The reasons.
const (
	_ Reason = iota
	ClientClosed
	AuthenticationTimeout
	AuthenticationViolation
	SlowConsumerPendingBytes
	SlowConsumerWriteDeadline
	WriteError
	ReadError
	ParseError
	StaleConnection
	ProtocolViolation
	BadClientProtocolVersion
	MaxAccountConnectionsExceeded
	MaxConnectionsExceeded
	MaxPayloadExceeded
	MaxControlLineExceeded
	MaxSubscriptionsExceeded
	ServerShutdown
	AuthenticationExpired
	MissingAccount
	NoRespondersRequiresHeaders
	Kicked
	TLSHandshakeError
)

var reasonTexts = [...]string{
	ClientClosed:                  "Client Closed",
	AuthenticationTimeout:         "Authentication Timeout",
	AuthenticationViolation:       "Authentication Failure",
	SlowConsumerPendingBytes:      "Slow Consumer (Pending Bytes)",
	SlowConsumerWriteDeadline:     "Slow Consumer (Write Deadline)",
	WriteError:                    "Write Error",
	ReadError:                     "Read Error",
	ParseError:                    "Parse Error",
	StaleConnection:               "Stale Connection",
	ProtocolViolation:             "Protocol Violation",
	BadClientProtocolVersion:      "Bad Client Protocol Version",
	MaxAccountConnectionsExceeded: "Maximum Account Connections Exceeded",
	MaxConnectionsExceeded:        "Maximum Connections Exceeded",
	MaxPayloadExceeded:            "Maximum Message Payload Exceeded",
	MaxControlLineExceeded:        "Maximum Control Line Exceeded",
	MaxSubscriptionsExceeded:      "Maximum Subscriptions Exceeded",
	ServerShutdown:                "Server Shutdown",
	AuthenticationExpired:         "Authentication Expired",
	MissingAccount:                "Missing Account",
	NoRespondersRequiresHeaders:   "No Responders Requires Headers",
	Kicked:                        "Kicked",
	TLSHandshakeError:             "TLS Handshake Failure",
}

func (r Reason) String() string {
	if int(r) < len(reasonTexts) && reasonTexts[r] != "" {
		return reasonTexts[r]
	}
	return "Unknown State"
}

// flushes reports whether what waits to be written is still written before the connection is closed for this reason.
func (r Reason) flushes() bool {
	switch r {
	case ReadError, WriteError, SlowConsumerPendingBytes, SlowConsumerWriteDeadline, TLSHandshakeError:
		return false
	}
	return true
}
