package proto

import (
	"encoding/json"
	"strconv"
)

// Info is what a server tells a client about itself, in the order of nats-server's fields. Zero values of fields that
// are marked so are left out.
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

// Append appends the INFO line. It writes the JSON by hand, since a server greets thousands of clients at once when
// they all come back.
func (i *Info) Append(b []byte) []byte {
	o := object{append(b, "INFO {"...)}
	o.text("server_id", i.ServerID)
	o.text("server_name", i.ServerName)
	o.text("version", i.Version)
	o.number("proto", int64(i.Proto))
	o.textIf("git_commit", i.GitCommit)
	o.text("go", i.Go)
	o.text("host", i.Host)
	o.number("port", int64(i.Port))
	o.key("headers")
	o.b = strconv.AppendBool(o.b, i.Headers)
	o.flag("auth_required", i.AuthReq)
	o.flag("tls_required", i.TLSReq)
	o.flag("tls_verify", i.TLSVerify)
	o.flag("tls_available", i.TLSAvail)
	o.number("max_payload", int64(i.MaxPayload))
	o.flag("jetstream", i.JetStream)
	if i.ClientID != 0 {
		o.key("client_id")
		o.b = strconv.AppendUint(o.b, i.ClientID, 10)
	}
	o.textIf("client_ip", i.ClientIP)
	o.textIf("nonce", i.Nonce)
	o.textIf("cluster", i.Cluster)
	o.textIf("domain", i.Domain)
	if len(i.ConnectURLs) > 0 {
		o.key("connect_urls")
		for n, url := range i.ConnectURLs {
			o.b = append(o.b, "[,"[min(n, 1)])
			o.b = appendString(o.b, url)
		}
		o.b = append(o.b, ']')
	}
	o.flag("ldm", i.LameDuck)
	o.flag("connect_info", i.ConnectInfo)
	o.textIf("remote_account", i.RemoteAccount)
	o.flag("acc_is_sys", i.SystemAccount)
	if i.APILevel != 0 {
		o.number("api_lvl", int64(i.APILevel))
	}
	o.textIf("xkey", i.XKey)
	o.textIf("sluice", i.Sluice)
	return append(o.b, "} \r\n"...) // with the blank that nats-server sends
}

// object is a JSON object that is being written.
type object struct{ b []byte }

func (o *object) key(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

func (o *object) text(name, value string) {
	o.key(name)
	o.b = appendString(o.b, value)
}

func (o *object) textIf(name, value string) {
	if value != "" {
		o.text(name, value)
	}
}

func (o *object) number(name string, value int64) {
	o.key(name)
	o.b = strconv.AppendInt(o.b, value, 10)
}

func (o *object) flag(name string, value bool) {
	if value {
		o.key(name)
		o.b = append(o.b, "true"...)
	}
}

// appendString appends a string as encoding/json would write it.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			j, _ := json.Marshal(s) // a string cannot fail
			return append(b, j...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
