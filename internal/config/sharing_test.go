package config

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/account"
)

func TestLoadSharing(t *testing.T) {
	o, err := Load(write(t, `
mappings { a: b, "c.*": [{destination: "d.$1", weight: 30%}, {dest: "e.$1", weight: 20}], f: {destination: g, weight: 100} }
accounts {
  A { exports [{stream: "s.>", accounts: [B]}, {service: svc, response: chunk, threshold: "3s"}, {service: "n.*", account_token_position: 2, allow_trace: false}], maps { x: y } }
  B { imports [{stream: {account: A, subject: "s.1"}, prefix: p}, {service: {account: A, subject: svc}, to: t, share: true}] }
}`))
	if err != nil {
		t.Fatal(err)
	}
	wantMappings := []account.Mapping{
		{Source: "a", To: []account.MappedTo{{Subject: "b", Weight: 100}}},
		{Source: "c.*", To: []account.MappedTo{{Subject: "d.$1", Weight: 30}, {Subject: "e.$1", Weight: 20}}},
		{Source: "f", To: []account.MappedTo{{Subject: "g", Weight: 100}}},
	}
	if !reflect.DeepEqual(o.Auth.Mappings, wantMappings) {
		t.Errorf("mappings %+v", o.Auth.Mappings)
	}
	want := []account.AccountSettings{
		{
			Name: "A", Mappings: []account.Mapping{{Source: "x", To: []account.MappedTo{{Subject: "y", Weight: 100}}}},
			Exports: []account.Export{
				{Subject: "s.>", Accounts: []string{"B"}},
				{Subject: "svc", Service: true, Responses: account.Chunked, Threshold: 3 * time.Second},
				{Subject: "n.*", Service: true, TokenPosition: 2},
			},
		},
		{Name: "B", Imports: []account.Import{
			{Account: "A", Subject: "s.1", Prefix: "p"},
			{Account: "A", Subject: "svc", Service: true, To: "t", Share: true},
		}},
	}
	if !reflect.DeepEqual(o.Auth.Accounts, want) {
		t.Errorf("accounts %+v", o.Auth.Accounts)
	}
}

// TestSharingIsChecked compares with nats-server, where there is one, what it takes.
func TestSharingIsChecked(t *testing.T) {
	const own = true // refused here only
	tests := []struct {
		name, text string
		fault      string // "": none
		ours       bool
	}{
		{name: "public", text: `A {exports [{stream: a}]} B {imports [{stream: {account: A, subject: a}}]}`},
		{name: "a part", text: `A {exports [{stream: "a.>"}]} B {imports [{stream: {account: A, subject: "a.*.b"}}]}`},
		{name: "in any order", text: `B {imports [{service: {account: A, subject: a}}]} A {exports [{service: a}]}`},
		{name: "named", text: `A {exports [{stream: a, accounts: [B]}]} B {imports [{stream: {account: A, subject: a}}]}`},
		{name: "by token", text: `A {exports [{stream: "a.*", account_token_position: 2}]} B {imports [{stream: {account: A, subject: "a.B"}}]}`},
		{name: "another's token", text: `A {exports [{stream: "a.*", account_token_position: 2}]} B {imports [{stream: {account: A, subject: "a.C"}}]}`,
			fault: `:3: accounts.B.imports[0]: "a.C" of account "A": not authorized`},
		{name: "no such token", text: `A {exports [{stream: "a.b", account_token_position: 2}]}`, fault: ":2: accounts.A.exports[0]: account_token_position"},
		{name: "not exported", text: `A {} B {imports [{stream: {account: A, subject: a}}]}`, fault: `accounts.B.imports[0]: "a" of account "A": not authorized`},
		{name: "exported to others", text: `A {exports [{service: a, accounts: [C]}]} B {imports [{service: {account: A, subject: a}}]} C {}`, fault: "not authorized"},
		{name: "exported to an empty list", text: `A {exports [{service: a, accounts: []}]} B {imports [{service: {account: A, subject: a}}]}`},
		{name: "more than exported", text: `A {exports [{stream: "a.*"}]} B {imports [{stream: {account: A, subject: "a.>"}}]}`, fault: "not authorized"},
		{name: "a stream as a service", text: `A {exports [{stream: a}]} B {imports [{service: {account: A, subject: a}}]}`, fault: "not authorized"},
		{name: "to no account", text: `A {exports [{stream: a, accounts: [X]}]}`, fault: `:2: accounts.A.exports[0]: there is no account "X"`},
		{name: "from no account", text: `B {imports [{stream: {account: X, subject: a}}]}`, fault: `there is no account "X"`},
		{name: "both kinds", text: `A {exports [{stream: a, service: a}]}`, fault: "a stream or a service, not both"},
		{name: "neither kind", text: `A {exports [{accounts: [A]}]}`, fault: "needs a stream or a service", ours: own},
		{name: "responses of a stream", text: `A {exports [{stream: a, response: stream}]}`, fault: "only a service has responses"},
		{name: "unknown responses", text: `A {exports [{service: a, response: many}]}`, fault: `exports[0].response: expected "singleton"`},
		{name: "unknown setting", text: `A {exports [{service: a, what: 1}]}`, fault: "exports[0].what: unknown setting"},
		{name: "exports no list", text: `A {exports {stream: a}}`, fault: "expected a list of exports"},
		{name: "import without a subject", text: `A {imports [{stream: {account: A}}]}`, fault: "needs an account and a subject"},
		{name: "prefix and to", text: `A {exports [{stream: a}]} B {imports [{stream: {account: A, subject: a}, prefix: p, to: t}]}`, fault: "both a prefix and a to", ours: own /* nats-server depends on the order */},
		{name: "prefix with wildcards", text: `A {exports [{stream: a}]} B {imports [{stream: {account: A, subject: a}, prefix: "p.*"}]}`, fault: "prefix cannot contain wildcards"},
		{name: "stream twice", text: `A {exports [{stream: a}]} B {imports [{stream: {account: A, subject: a}}, {stream: {account: A, subject: a}, to: b}]}`, fault: ":3: accounts.B.imports[1]: \"a\": the subject is imported"},
		{name: "service twice", text: `A {exports [{service: a}, {service: b}]} B {imports [{service: {account: A, subject: a}}, {service: {account: A, subject: b}, to: a}]}`, fault: "twice"},
		{name: "one subject of two accounts", text: `A {exports [{service: a}]} B {exports [{service: a}]} C {imports [{service: {account: A, subject: a}}, {service: {account: B, subject: a}}]}`},
		{name: "circle of services", text: `A {exports [{service: a}] imports [{service: {account: B, subject: a}}]} B {exports [{service: a}] imports [{service: {account: A, subject: a}}]}`, fault: "cycle"},
		{name: "circle of streams", text: `A {exports [{stream: a}] imports [{stream: {account: B, subject: a}}]} B {exports [{stream: a}] imports [{stream: {account: A, subject: a}}]}`, fault: "cycle"},
		{name: "no circle", text: `A {exports [{service: a}] imports [{service: {account: B, subject: b}}]} B {exports [{service: b}] imports [{service: {account: A, subject: a}}]}`},
		{name: "wildcards renamed", text: `A {exports [{service: "a.*.*"}]} B {imports [{service: {account: A, subject: "a.*.*"}, to: "b.$2.$1"}]}`},
		{name: "wildcards missing", text: `A {exports [{service: "a.*.*"}]} B {imports [{service: {account: A, subject: "a.*.*"}, to: "b.$2"}]}`, fault: "does not use all the wildcards"},
		{name: "another function", text: `A {exports [{stream: "a.*"}]} B {imports [{stream: {account: A, subject: "a.*"}, to: "b.{{partition(2,1)}}"}]}`, fault: "imports know {{wildcard(n)}} only"},
		{name: "trace", text: `A {exports [{service: a, allow_trace: true}]}`, fault: "exports[0].allow_trace: not supported", ours: own},
		{name: "latency", text: `A {exports [{service: a, latency: {subject: l}}]}`, fault: "exports[0].latency: not supported", ours: own},
		{name: "no subject", text: `A {mappings {"a..b": c}}`, fault: `accounts.A.mappings[0]: mapping of "a..b"`},
		{name: "weights", text: `A {mappings {a: [{destination: b, weight: 60}, {destination: c, weight: 50}]}}`, fault: "more than 100"},
		{name: "no weight", text: `A {mappings {a: {destination: b}}}`, fault: "needs a weight"},
		{name: "a weight that is none", text: `A {mappings {a: {destination: b, weight: 101}}}`, fault: "101"},
		{name: "destination twice", text: `A {mappings {a: [{destination: b, weight: 10}, {destination: b, weight: 20}]}}`, fault: "twice"},
		{name: "cluster", text: `A {mappings {a: {destination: b, weight: 10, cluster: c}}}`, fault: "cluster: not supported", ours: own},
		{name: "no such wildcard", text: `A {mappings {"a.*": "b.$2"}}`, fault: "mapping of"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			path := write(t, "accounts {\n"+strings.NewReplacer("} A {", "}\n A {", "} B {", "}\n B {", "} C {", "}\n C {", "] imports", "], imports").Replace(tc.text)+"\n}")
			_, err := Load(path)
			switch {
			case tc.fault == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.fault != "" && err == nil:
				t.Error("taken")
			case tc.fault != "" && !strings.Contains(err.Error(), tc.fault):
				t.Errorf("fault %v, want %q", err, tc.fault)
			}
			binary := os.Getenv("SLUICE_NATS_SERVER")
			if binary == "" || tc.ours {
				return
			}
			out, err := exec.CommandContext(t.Context(), binary, "-t", "-c", filepath.Clean(path)).CombinedOutput()
			if (err == nil) != (tc.fault == "") {
				t.Errorf("nats-server: %v %s", err, out)
			}
		})
	}
}
