// Package sys_test compares what the nats CLI shows of Sluice through the system account with what it shows of
// nats-server.
package sys_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluicemq/sluice/bench/process"
	"github.com/sluicemq/sluice/test/rig"
)

const configuration = `
server_name: one
server_tags: [a, "az:1"]
jetstream { max_mem: 100M, max_file: 1G, store_dir: %q }
accounts {
  SYS { users: [{user: sys, password: s}] }
  APP { jetstream: enabled, users: [{user: app, password: a}] }
  OTHER { users: [{user: other, password: o}] }
}
system_account: SYS
`

// side is a server with its CLI.
type side struct {
	server *process.Server
	home   string
}

// sides are Sluice and nats-server, each with a client, a stream and a consumer.
func sides(t *testing.T) (sluice, reference side) {
	t.Helper()
	config := func() string {
		path := filepath.Join(t.TempDir(), "server.conf")
		if err := os.WriteFile(path, fmt.Appendf(nil, configuration, t.TempDir()), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sluiceConfig := rig.SluiceConfig(t, rig.DirStore(t), "-c", config())
	sluiceConfig.Args = slices.DeleteFunc(sluiceConfig.Args, func(a string) bool { return a == "-n" || a == "node-1" })
	server, err := process.Start(t.Context(), sluiceConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	sluice = side{server, t.TempDir()}
	reference = side{rig.StartReference(t, "-c", config()), t.TempDir()}
	for _, s := range []side{sluice, reference} {
		nc := s.connect(t, "app", "a", nats.Name("worker"))
		if _, err := nc.SubscribeSync("work.>"); err != nil {
			t.Fatal(err)
		}
		s.must(t, "app", "a", "stream", "add", "S", "--subjects", "s.>", "--defaults")
		s.must(t, "app", "a", "consumer", "add", "S", "C", "--pull", "--defaults")
		s.must(t, "app", "a", "pub", "s.1", "hello", "--jetstream")
	}
	return sluice, reference
}

func (s side) connect(t *testing.T, user, password string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.server.URL(), append(opts, nats.UserInfo(user, password))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// run gives what a command printed.
func (s side) run(t *testing.T, user, password string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, rig.CLIBinary(t), append([]string{"--server", s.server.URL(), "--user", user, "--password", password, "--timeout", "2s"}, args...)...)
	cmd.Env = []string{"HOME=" + s.home, "XDG_CONFIG_HOME=" + s.home, "PATH=/usr/bin:/bin", "NO_COLOR=1"}
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s side) must(t *testing.T, user, password string, args ...string) string {
	t.Helper()
	out, err := s.run(t, user, password, args...)
	if err != nil {
		t.Fatalf("nats %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Reports are tables: the same titles, labels and number of lines.
func TestReports(t *testing.T) {
	sluice, reference := sides(t)
	tests := []string{
		"server list 1", "server ping 1", "server report jetstream", "server report connections", "server report accounts", "server report cpu",
		"server report mem", "server report health", "server check connection", "server check server --name one",
	}
	for _, command := range tests {
		got, want := sluice.must(t, "sys", "s", strings.Fields(command)...), reference.must(t, "sys", "s", strings.Fields(command)...)
		if outline(got) != outline(want) {
			t.Errorf("nats %s:\n%s\nof nats-server:\n%s", command, got, want)
		}
	}
	for _, command := range []string{"server check jetstream", "server check stream --stream S", "server check consumer --stream S --consumer C"} {
		if got := sluice.must(t, "app", "a", strings.Fields(command)...); !strings.Contains(got, "OK") {
			t.Errorf("nats %s: %s", command, got)
		}
	}
	if out := sluice.must(t, "sys", "s", "server", "info", "one"); !strings.Contains(out, "Server information for one") {
		t.Error(out)
	}
}

var values = regexp.MustCompile(`N[A-Z0-9]{55}|[0-9][0-9.,:µnms-]*|[╭╮╯╰─├┤┬┴┼│▀-▟]+|\b([KMG]iB|B|[µnm]?s)\b`)

// outline is a text without numbers, units, times, ids, bars and the widths of columns.
func outline(s string) string {
	return strings.Join(strings.Fields(values.ReplaceAllString(s, " ")), " ")
}

// Answers have the fields that nats-server's have, but for these.
func TestAnswers(t *testing.T) {
	sluice, reference := sides(t)
	missing := regexp.MustCompile(`feature_flags|disk_io_wait_stats|compress_ok|sync_interval|account_detail\.imports|data\.imports|pause_until|^\.data\.cmdline|System recvQ`)
	extra := regexp.MustCompile(`sluice|sync_always`)
	tests := []struct{ subject, body string }{
		{"PING", ""}, {"PING.VARZ", ""}, {"PING.CONNZ", `{"subscriptions":true,"auth":true}`}, {"PING.CONNZ", `{"subscriptions_detail":true,"acc":"APP"}`},
		{"PING.CONNZ", `{"filter_subject":"a"}`}, {"PING.SUBSZ", `{"subscriptions":true,"account":"APP","test":"work.1"}`},
		{"PING.JSZ", `{"streams":true,"consumer":true,"config":true}`}, {"PING.HEALTHZ", `{"account":"APP","stream":"X"}`}, {"PING.HEALTHZ", ""},
		{"PING.ACCOUNTZ", ""}, {"PING.ACCOUNTZ", `{"account":"OTHER"}`}, {"PING.ACCOUNTZ", `{"account":"X"}`}, {"PING.IDZ", ""}, {"PING.ROUTEZ", ""},
		{"PING.GATEWAYZ", ""}, {"PING.LEAFZ", ""}, {"PING.EXPVARZ", ""}, {"PING.VARZ", "{"}, {"PING.CONNZ", `{"sort":"x"}`},
		{"ACCOUNT APP.CONNZ", ""}, {"ACCOUNT APP.JSZ", `{"streams":true}`}, {"ACCOUNT APP.STATZ", ""}, {"ACCOUNT APP.CONNS", ""}, {"ACCOUNT APP.INFO", ""},
		{"ACCOUNT X.INFO", ""}, {"ACCOUNT SYS.JSZ", ""}, {"ACCOUNT PING.STATZ", `{"include_unused":true}`},
	}
	s, r := sluice.connect(t, "sys", "s"), reference.connect(t, "sys", "s")
	for _, tc := range tests {
		subject := "$SYS.REQ.SERVER." + tc.subject
		if account, ok := strings.CutPrefix(tc.subject, "ACCOUNT "); ok {
			subject = "$SYS.REQ.ACCOUNT." + account
		}
		got, want := answer(t, s, subject, tc.body), answer(t, r, subject, tc.body)
		for _, f := range without(want, got) {
			if !missing.MatchString(f) {
				t.Errorf("%s %s: %s is missing", subject, tc.body, f)
			}
		}
		for _, f := range without(got, want) {
			if !extra.MatchString(f) {
				t.Errorf("%s %s: %s is too much", subject, tc.body, f)
			}
		}
	}
}

// answer gives the fields of an answer; errors with their text.
func answer(t *testing.T, nc *nats.Conn, subject, body string) []string {
	t.Helper()
	m, err := nc.Request(subject, []byte(body), 5*time.Second)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	return fields(t, m.Data)
}

func fields(t *testing.T, document []byte) []string {
	t.Helper()
	var v any
	if err := json.Unmarshal(document, &v); err != nil {
		t.Fatalf("%v in %s", err, document)
	}
	all := map[string]bool{}
	walk(v, "", all)
	var list []string
	for f := range all {
		list = append(list, f)
	}
	slices.Sort(list)
	return list
}

func walk(v any, path string, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			walk(field, path+"."+name, into)
		}
	case []any:
		for _, item := range v[:min(len(v), 1)] {
			walk(item, path+"[]", into)
		}
	case string:
		if strings.HasSuffix(path, ".description") || strings.HasSuffix(path, ".error") || path == ".type" {
			path += " = " + v
		}
		into[path] = true
	default:
		into[path] = true
	}
}

func without(a, b []string) (rest []string) {
	for _, f := range a {
		if !slices.Contains(b, f) {
			rest = append(rest, f)
		}
	}
	return rest
}

// Events come in the same order, under the same subjects and with the same fields.
func TestEvents(t *testing.T) {
	sluice, reference := sides(t)
	observe := func(s side) (seen []string) {
		nc := s.connect(t, "sys", "s")
		sub, err := nc.SubscribeSync("$SYS.>")
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		until := func(last string) {
			for {
				m, err := sub.NextMsg(10 * time.Second)
				if err != nil {
					t.Fatalf("waiting for %s: %v; saw %v", last, err, seen)
				}
				if strings.HasSuffix(m.Subject, ".STATSZ") || strings.HasSuffix(m.Subject, "CONNS") && !strings.Contains(m.Subject, ".OTHER.") ||
					strings.Contains(m.Subject, ".SYS.") {
					continue // these come by the clock, or are about this very connection
				}
				what := strings.ReplaceAll(m.Subject, nc.ConnectedServerId(), "ID")
				fields := slices.DeleteFunc(fields(t, m.Data), func(f string) bool { return strings.Contains(f, "feature_flags") })
				seen = append(seen, what+" "+strings.Join(fields, " "))
				if strings.HasSuffix(m.Subject, last) {
					return
				}
			}
		}
		other := s.connect(t, "other", "o", nats.Name("short"))
		until(".OTHER.CONNECT")
		other.Close()
		until(".OTHER.DISCONNECT")
		if _, err := nats.Connect(s.server.URL(), nats.UserInfo("other", "wrong")); err == nil {
			t.Fatal("a wrong password is taken")
		}
		until(".$G.DISCONNECT")
		kicked := s.connect(t, "other", "o", nats.NoReconnect())
		until(".OTHER.CONNECT")
		id, err := kicked.GetClientID()
		if err != nil {
			t.Fatal(err)
		}
		answer(t, nc, "$SYS.REQ.SERVER."+nc.ConnectedServerId()+".KICK", fmt.Sprintf(`{"cid":%d}`, id))
		until(".OTHER.DISCONNECT")
		return slices.DeleteFunc(seen, func(s string) bool { return strings.HasPrefix(s, "$SYS.REQ.") || strings.HasPrefix(s, "_INBOX") })
	}
	got, want := observe(sluice), observe(reference)
	if !slices.Equal(got, want) {
		t.Errorf("%s\nof nats-server:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
