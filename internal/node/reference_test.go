package node

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/config"
)

// referenceEnv names the binary of a nats-server to compare with.
const referenceEnv = "SLUICE_NATS_SERVER"

const referenceConfig = `
listen: "127.0.0.1:-1"
http: "127.0.0.1:-1"
server_name: test
server_tags: ["x", "y"]
server_metadata: { k: v }
system_account: SYS
jetstream { store_dir: "%s", max_mem: 2000, max_file: 3000, limits { max_ack_pending: 50 } }
accounts {
  SYS { users [{user: s, password: p}] }
  A { users [{user: a, password: p}], jetstream { max_mem: 1000, max_file: 1500, max_consumers: 5, max_streams: 4 } }
  B { users [{user: b, password: p}], jetstream { max_mem: 500, max_file: 1000 } }
  C { users [{user: c, password: p}] }
}`

// startReference runs nats-server, or skips the test, and gives its addresses for clients and for monitoring.
func startReference(t *testing.T, text string) (clients, monitoring string) {
	t.Helper()
	binary := os.Getenv(referenceEnv)
	if binary == "" {
		t.Skip(referenceEnv + " is not set")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "nats.conf")
	text = fmt.Sprintf(text, filepath.ToSlash(filepath.Join(dir, "js"))) + "\nports_file_dir: \"" + filepath.ToSlash(dir) + "\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	cmd := exec.CommandContext(ctx, binary, "-c", file)
	cmd.Stderr = io.Discard
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		cmd.Wait()
	})
	ports := filepath.Join(dir, filepath.Base(binary)+"_"+strconv.Itoa(cmd.Process.Pid)+".ports")
	found := regexp.MustCompile(`nats://([0-9.:]+).*"(http://[0-9.:]+)`)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		b, err := os.ReadFile(ports)
		if m := found.FindSubmatch(b); err == nil && m != nil {
			return string(m[1]), string(m[2])
		}
	}
	t.Fatal("nats-server did not start")
	return "", ""
}

// dialTCP is dial over the network.
func dialTCP(t *testing.T, address, connect string) *wire {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(address, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	c := &wire{Conn: nc, t: t, r: bufio.NewReader(nc)}
	c.send(`CONNECT {"verbose":false,"headers":true,"no_responders":true` + connect + "}\r\nPING\r\n")
	for c.line() != "PONG" {
	}
	return c
}

// referenceScript is what is asked for in turn: who asks, the subject, and the body. # stands for 100 bytes.
var referenceScript = [][3]string{
	{"a", "$JS.API.INFO", ""},
	{"b", "$JS.API.INFO", ""},
	{"c", "$JS.API.INFO", ""},
	{"a", "$JS.API.STREAM.CREATE.S1", `{"name":"S1","subjects":["s1"],"max_bytes":1000}`},
	{"a", "$JS.API.STREAM.CREATE.S2", `{"name":"S2","subjects":["s2"],"max_bytes":600}`},
	{"a", "$JS.API.STREAM.CREATE.S2", `{"name":"S2","subjects":["s2"],"max_bytes":500,"max_consumers":6}`},
	{"a", "$JS.API.STREAM.CREATE.S2", `{"name":"S2","subjects":["s2"],"max_bytes":500}`},
	{"a", "$JS.API.STREAM.CREATE.S3", `{"name":"S3","subjects":["s3"]}`},
	{"a", "$JS.API.STREAM.UPDATE.S2", `{"name":"S2","subjects":["s2"],"max_bytes":501}`},
	{"a", "$JS.API.STREAM.UPDATE.S2", `{"name":"S2","subjects":["s2"],"storage":"memory","max_bytes":10}`},
	{"a", "$JS.API.STREAM.UPDATE.S2", `{"name":"S2","subjects":["s2"],"max_bytes":400}`},
	{"a", "$JS.API.STREAM.CREATE.S3", `{"name":"S3","subjects":["s3"]}`},
	{"a", "$JS.API.STREAM.CREATE.M", `{"name":"M","subjects":["m"],"storage":"memory","max_bytes":1001}`},
	{"a", "$JS.API.STREAM.CREATE.M", `{"name":"M","subjects":["m"],"storage":"memory"}`},
	{"a", "$JS.API.STREAM.CREATE.S5", `{"name":"S5","subjects":["s5"]}`},
	{"b", "$JS.API.STREAM.CREATE.S", `{"name":"S","subjects":["s"],"max_bytes":1001}`},
	{"b", "$JS.API.STREAM.CREATE.S", `{"name":"S","subjects":["s"],"discard":"new"}`},
	{"c", "$JS.API.STREAM.CREATE.S", `{"name":"S","subjects":["s"]}`},
	{"a", "$JS.API.CONSUMER.CREATE.S3.C", `{"stream_name":"S3","config":{"durable_name":"C","ack_policy":"explicit","max_ack_pending":51}}`},
	{"a", "$JS.API.CONSUMER.CREATE.S3.C", `{"stream_name":"S3","config":{"durable_name":"C","ack_policy":"explicit","max_ack_pending":50}}`},
	{"a", "s3", "#"}, {"a", "s3", "#"}, {"a", "s3", "#"}, {"a", "s3", "#"}, {"a", "s3", "#"}, {"a", "s3", "#"}, {"a", "s3", "#"},
	{"a", "s3", "#"}, {"a", "s3", "#"}, {"a", "s3", "#"}, {"a", "s3", "#"}, {"a", "s3", "#"}, {"a", "s3", "#"},
	{"a", "m", "#"}, {"a", "m", "#"}, {"a", "m", "#"}, {"a", "m", "#"}, {"a", "m", "#"}, {"a", "m", "#"}, {"a", "m", "#"}, {"a", "m", "#"}, {"a", "m", "#"},
	{"b", "s", "#"}, {"b", "s", "#"}, {"b", "s", "#"}, {"b", "s", "#"}, {"b", "s", "#"}, {"b", "s", "#"}, {"b", "s", "#"}, {"b", "s", "#"},
	{"a", "$JS.API.STREAM.PURGE.S3", `{"keep":5}`},
	{"a", "$JS.API.INFO", ""},
	{"b", "$JS.API.INFO", ""},
}

// TestLikeNATSServer does the same with both servers and compares every answer, and what monitoring shows afterwards.
func TestLikeNATSServer(t *testing.T) {
	theirClients, theirMonitoring := startReference(t, referenceConfig)
	file := filepath.Join(t.TempDir(), "sluice.conf")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(referenceConfig, "/x")), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	o.Store.URL = "mem://"
	n, _ := start(t, o)
	play := func(address string) (answers []any) {
		clients := map[string]*wire{}
		for _, user := range []string{"a", "b", "c"} {
			clients[user] = dialTCP(t, address, `,"user":"`+user+`","pass":"p","name":"client","lang":"go","version":"1"`)
		}
		clients["c"].send("SUB c.> q 9\r\nPUB c.1 2\r\nok\r\n")
		clients["c"].line()
		clients["c"].line()
		for _, step := range referenceScript {
			body := strings.ReplaceAll(step[2], "#", strings.Repeat("x", 100))
			answers = append(answers, document(t, clients[step[0]].request(step[1], body)))
		}
		return answers
	}
	theirs, ours := play(theirClients), play(n.ClientURL())
	for i := range theirs {
		compare(t, fmt.Sprintf("%d %s %s", i, referenceScript[i][0], referenceScript[i][1]), "", ours[i], theirs[i])
	}
	for _, path := range []string{
		"/varz", "/jsz?consumers=1&config=1&accounts=1", "/jsz?acc=A", "/connz?subs=detail&auth=1", "/subsz?subs=1&acc=C", "/accountz", "/accountz?acc=A", "/accountz?acc=C",
		"/accstatz", "/healthz", "/healthz?account=A&stream=S3&consumer=C", "/healthz?account=A&stream=S3&consumer=D", "/healthz?account=C", "/healthz?account=A&stream=T",
		"/healthz?js-enabled-only=true", "/healthz?js-server-only=true", "/healthz?stream=S",
	} {
		theirCode, theirBody := fetch(t, theirMonitoring+path)
		ourCode, ourBody := fetch(t, n.MonitorURL()+path)
		if theirCode != ourCode {
			t.Errorf("%s: %d, nats-server %d", path, ourCode, theirCode)
		}
		compare(t, path, "", document(t, ourBody), document(t, theirBody))
	}
}

func document(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// different are the paths, as patterns, that may differ.
var different = regexp.MustCompile(`^(` + strings.Join([]string{
	// Identities, times and measurements.
	`(.*\.)?(server_id|now|start|uptime|created|ts|last_activity|idle|rtt|first_ts|last_ts|update_time|config_load_time|config_digest|cid)`,
	`port|http_port|mem|cpu|git_commit|go|gomemlimit|http_req_stats.*|connections\.\d+\.port`,
	// nats-server has subscriptions and messages of its own, and statistics of a cache that there is none of here.
	`(.*\.)?sublist_stats\..*|(.*\.)?num_subscriptions|num_(cache|inserts|removes|matches)|cache_hit_rate|max_fanout|avg_fanout|subscriptions`,
	`account_detail\.(imports|subscriptions).*|total|subscriptions_list`,
	`(in|out)_(msgs|bytes)|account_statz\.\d+\.(sent|received)\..*`,
	// What Sluice has beside it, has not, or does another way.
	`sluice_version|sluice_storage.*|feature_flags|disk_io_wait_stats|(.*\.)?(store_dir|sync_always|compress_ok|sync_interval)`,
	// Answers of the API leave these out where they have their defaults, which makes them shorter.
	`(.*\.)?config\.(compression|allow_msg_ttl)|(.*\.)?out_bytes|out_client_bytes`,
}, "|") + `)$`)

// compare reports where two documents differ.
func compare(t *testing.T, what, path string, ours, theirs any) {
	t.Helper()
	if different.MatchString(path) {
		return
	}
	below := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	switch theirs := theirs.(type) {
	case map[string]any:
		o, ok := ours.(map[string]any)
		if !ok {
			break
		}
		keys := map[string]bool{}
		for k := range theirs {
			keys[k] = true
		}
		for k := range o {
			keys[k] = true
		}
		for k := range keys {
			compare(t, what, below(k), o[k], theirs[k])
		}
		return
	case []any:
		o, ok := ours.([]any)
		if !ok || len(o) != len(theirs) {
			break
		}
		byName(o)
		byName(theirs)
		for i := range theirs {
			compare(t, what, below(strconv.Itoa(i)), o[i], theirs[i])
		}
		return
	}
	if !reflect.DeepEqual(ours, theirs) {
		t.Errorf("%s: %s is %v, nats-server has %v", what, path, ours, theirs)
	}
}

// byName sorts names, and objects that have one: nats-server lists them as they come.
func byName(list []any) {
	name := func(v any) string {
		if m, ok := v.(map[string]any); ok {
			v = m["name"]
		}
		s, _ := v.(string)
		return s
	}
	slices.SortStableFunc(list, func(a, b any) int { return strings.Compare(name(a), name(b)) })
}
