package proto

import "encoding/json"

// Connect is a client's CONNECT. The zero value is not the default: see DefaultConnect.
type Connect struct {
	Echo         bool   `json:"echo"`
	Verbose      bool   `json:"verbose"`
	Pedantic     bool   `json:"pedantic"`
	TLSRequired  bool   `json:"tls_required"`
	NKey         string `json:"nkey,omitempty"`
	JWT          string `json:"jwt,omitempty"`
	Sig          string `json:"sig,omitempty"`
	Token        string `json:"auth_token,omitempty"`
	User         string `json:"user,omitempty"`
	Pass         string `json:"pass,omitempty"`
	Name         string `json:"name"`
	Lang         string `json:"lang"`
	Version      string `json:"version"`
	Protocol     int    `json:"protocol"`
	Account      string `json:"account,omitempty"`
	NewAccount   bool   `json:"new_account,omitempty"`
	Headers      bool   `json:"headers,omitempty"`
	NoResponders bool   `json:"no_responders,omitempty"`
}

// DefaultConnect holds before any CONNECT: a client that never sends one is verbose, pedantic and hears itself.
func DefaultConnect() Connect { return Connect{Verbose: true, Pedantic: true, Echo: true} }

// Merge reads the argument of a CONNECT over the options that hold so far: fields that it does not name keep their value.
func (c *Connect) Merge(arg []byte) error { return json.Unmarshal(arg, c) }
