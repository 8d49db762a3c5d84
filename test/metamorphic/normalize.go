package metamorphic

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
)

// volatile are the fields of API answers and advisories that two servers that do the same fill differently: moments, ids
// and what there is in a cluster only.
var volatile = map[string]bool{
	"created": true, "ts": true, "time": true, "timestamp": true, "first_ts": true, "last_ts": true, "last_active": true,
	"cluster": true, "id": true, "client": true, "server": true, "server_id": true,
}

// volatileHeaders are headers that hold a moment.
var volatileHeaders = map[string]bool{"Nats-Time-Stamp": true}

// normal is a message's text without what differs each time. An acknowledgement subject loses its moment.
func normal(m *nats.Msg) string {
	var b strings.Builder
	names := make([]string, 0, len(m.Header))
	for name := range m.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if volatileHeaders[name] {
			continue
		}
		fmt.Fprintf(&b, "[%s: %s]", name, timeless(strings.Join(m.Header[name], ", ")))
	}
	b.WriteString(normalData(m.Data))
	return b.String()
}

// normalDelivery is a delivered message with its subject and where it stands.
func normalDelivery(m *nats.Msg) string {
	return m.Subject + " " + timeless(m.Reply) + " " + normal(m)
}

// timeless is an acknowledgement subject without its moment; other texts stay.
func timeless(text string) string {
	if t := ackTokens(text); t != nil {
		t[7] = "T"
		return strings.Join(t, ".")
	}
	return text
}

func normalData(data []byte) string {
	var v any
	if len(data) == 0 || data[0] != '{' || json.Unmarshal(data, &v) != nil {
		return string(data)
	}
	out, _ := json.Marshal(normalJSON(v)) // what was just read can be written
	return string(out)
}

func normalJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v["last_seq"] == 0.0 {
			// Of a stream that never had a message, nats-server counts message 0 as deleted, and the first one is 0 or, after
			// a purge, 1.
			delete(v, "num_deleted")
			delete(v, "deleted")
			delete(v, "first_seq")
		}
		for name, value := range v {
			if volatile[name] {
				delete(v, name)
				continue
			}
			v[name] = normalJSON(value)
			if text, ok := value.(string); ok && name == "hdrs" {
				v[name] = normalBlock(text)
			}
		}
	case []any:
		for i := range v {
			v[i] = normalJSON(v[i])
		}
		slices.SortStableFunc(v, func(a, b any) int { return cmp.Compare(nameOf(a), nameOf(b)) })
	}
	return v
}

// normalBlock is a header block, in base64, without the order in which the client happened to write the headers.
func normalBlock(text string) string {
	block, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return text
	}
	lines := strings.Split(string(block), "\r\n")
	slices.Sort(lines)
	return strings.Join(lines, "|")
}

// nameOf orders what an answer lists in no particular order.
func nameOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]any:
		if name, ok := v["name"].(string); ok {
			return name
		}
		if cfg, ok := v["config"].(map[string]any); ok {
			name, _ := cfg["name"].(string)
			return name
		}
	}
	return ""
}
