package proto

import "encoding/json"

// Info is what a server tells a client about itself, in the order of nats-server's fields.
type Info struct {
	ServerID    string   `json:"server_id"`
	ServerName  string   `json:"server_name"`
	Version     string   `json:"version"`
	Proto       int      `json:"proto"`
	GitCommit   string   `json:"git_commit,omitempty"`
	Go          string   `json:"go"`
	Host        string   `json:"host"`
	Port        int      `json:"port"`
	Headers     bool     `json:"headers"`
	AuthReq     bool     `json:"auth_required,omitempty"`
	TLSReq      bool     `json:"tls_required,omitempty"`
	TLSVerify   bool     `json:"tls_verify,omitempty"`
	TLSAvail    bool     `json:"tls_available,omitempty"`
	MaxPayload  int32    `json:"max_payload"`
	JetStream   bool     `json:"jetstream,omitempty"`
	ClientID    uint64   `json:"client_id,omitempty"`
	ClientIP    string   `json:"client_ip,omitempty"`
	Nonce       string   `json:"nonce,omitempty"`
	Cluster     string   `json:"cluster,omitempty"`
	Domain      string   `json:"domain,omitempty"`
	ConnectURLs []string `json:"connect_urls,omitempty"`
	LameDuck    bool     `json:"ldm,omitempty"`
	// ConnectInfo marks the INFO that answers a client's first PING; it alone carries the two fields after it.
	ConnectInfo   bool   `json:"connect_info,omitempty"`
	RemoteAccount string `json:"remote_account,omitempty"`
	SystemAccount bool   `json:"acc_is_sys,omitempty"`
	APILevel      int    `json:"api_lvl,omitempty"`
	XKey          string `json:"xkey,omitempty"`
	// Sluice is this server's own version, beside the NATS version that it is compatible with.
	Sluice string `json:"sluice,omitempty"`
}

// Append appends the INFO line.
func (i *Info) Append(b []byte) []byte {
	j, err := json.Marshal(i)
	if err != nil {
		// Only strings, numbers and booleans: it cannot fail.
		panic(err)
	}
	b = append(b, "INFO "...)
	b = append(b, j...)
	return append(b, " \r\n"...) // with the blank that nats-server sends
}
