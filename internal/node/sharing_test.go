package node

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/config"
)

var updateSharing = flag.Bool("update-sharing", false, "write what nats-server answers into testdata/sharing")

// TestSharing plays scenarios of accounts that share subjects. Each file has a configuration, then what clients send
// ("user> PUB a 1|x", where | stands for a line end) and below it what all of them receive ("user< MSG a 1 1|x"), as
// nats-server says it. {reply} stands for the last reply that the client saw in a message, and ".1" at the end of the
// user makes the server answer first, where JetStream takes its time: "user.1> PUB …" waits for one message.
func TestSharing(t *testing.T) {
	files, err := filepath.Glob("testdata/sharing/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text, script, ok := strings.Cut(string(b), "\n----\n")
			if !ok {
				t.Fatal("no line of dashes")
			}
			head := "listen: \"127.0.0.1:-1\"\nserver_name: test\n"
			if os.Getenv(referenceEnv) != "" {
				address, _ := startReference(t, head+"http: \"127.0.0.1:-1\"\njetstream { store_dir: \"%s\" }\n"+strings.ReplaceAll(text, "%", "%%"))
				said := play(t, address, script)
				if *updateSharing {
					if err := os.WriteFile(file, []byte(text+"\n----\n"+said), 0o600); err != nil {
						t.Fatal(err)
					}
					script = said
				} else if said != script {
					t.Errorf("nats-server says\n%s", differing(said, script))
				}
			}
			n, log := start(t, load(t, head+"jetstream { }\nstore: \"mem://\"\n"+text))
			if said := play(t, n.ClientURL(), script); said != script {
				t.Errorf("Sluice says\n%s", differing(said, script))
			}
			for _, line := range log.take() {
				if !strings.Contains(line, "Publish Violation") {
					t.Errorf("logged: %s", line)
				}
			}
		})
	}
}

// patience is how long a scenario may take.
const patience = 10 * time.Second

// TestReloadSharing: imports, exports and mappings come and go while clients are connected.
func TestReloadSharing(t *testing.T) {
	const head = "listen: \"127.0.0.1:-1\"\nserver_name: test\njetstream { }\nstore: \"mem://\"\naccounts {\n"
	const users = `A { users [{user: a, password: p}], %s } B { users [{user: b, password: p}], %s }`
	settings := func(a, b string) string {
		return head + strings.ReplaceAll(fmt.Sprintf(users, a, b), "} B", "}\nB") + "\n}"
	}
	none := settings("", "")
	both := settings(`exports [{stream: s}, {service: r}]`, `imports [{stream: {account: A, subject: s}}, {service: {account: A, subject: r}}], mappings {m: r}`)
	n, _ := start(t, load(t, none))
	connect := `,"user":%q,"pass":"p"`
	a, b := dial(t, n, fmt.Sprintf(connect, "a")), dial(t, n, fmt.Sprintf(connect, "b"))
	pa, pb := &player{wire: a}, &player{wire: b}
	step := func(p *player, who, what string) string {
		if what != "" {
			p.send(strings.ReplaceAll(what, "|", "\r\n") + "\r\n")
		}
		var out strings.Builder
		p.until(t, who, 0, &out)
		return out.String()
	}
	step(pb, "b", "SUB s 1|SUB inbox 2")
	step(pa, "a", "SUB r 1")
	for i, shared := range []bool{false, true, false, true} {
		if i > 0 {
			text := none
			if shared {
				text = both
			}
			if err := n.Reload(load(t, text)); err != nil {
				t.Fatal(err)
			}
		}
		step(pa, "a", "PUB s 1|x")
		stream := step(pb, "b", "")
		asked := step(pb, "b", "PUB r inbox 1|x|PUB m inbox 1|x")
		requests := step(pa, "a", "")
		if shared {
			if stream != "b< MSG s 1 1|x\n" || asked != "" || strings.Count(requests, "HMSG r 1 _R_") != 2 {
				t.Errorf("reload %d: B got %q and %q, A %q", i, stream, asked, requests)
			}
			if answer := step(pa, "a", "PUB "+pa.reply+" 1|y") + step(pb, "b", ""); answer != "b< MSG inbox 2 1|y\n" {
				t.Errorf("reload %d: B was answered %q", i, answer)
			}
		} else if stream != "" || strings.Count(asked, "503") != 2 || requests != "" {
			t.Errorf("reload %d: B got %q and %q, A %q", i, stream, asked, requests)
		}
	}
}

// load reads a configuration.
func load(t *testing.T, text string) config.Options {
	t.Helper()
	file := filepath.Join(t.TempDir(), "s.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// differing puts the lines that differ side by side.
func differing(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			from := max(i-2, 0)
			return fmt.Sprintf("line %d\n%s\nwant\n%s", i+1, strings.Join(g[from:min(i+4, len(g))], "\n"), strings.Join(w[from:min(i+4, len(w))], "\n"))
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// player is one client of a scenario.
type player struct {
	*wire
	reply string
}

// play sends what a script says and gives the script with what is received.
func play(t *testing.T, address, script string) string {
	t.Helper()
	players := map[string]*player{}
	var order []string
	sends := regexp.MustCompile(`(?m)^(\w+)(?:\.\d)?> (.*)$`).FindAllStringSubmatch(script, -1)
	for _, s := range sends {
		if players[s[1]] != nil {
			continue
		}
		w := dialTCP(t, address, fmt.Sprintf(`,"user":%q,"pass":"p","name":"n","lang":"l","version":"v","protocol":1`, s[1]))
		_ = w.SetDeadline(time.Now().Add(patience))
		players[s[1]] = &player{wire: w, reply: "none"}
		order = append(order, s[1])
	}
	slices.Sort(order)
	var out strings.Builder
	for _, line := range strings.Split(strings.TrimSuffix(script, "\n"), "\n") {
		if strings.HasPrefix(line, "#") || line == "" {
			out.WriteString(line + "\n")
			continue
		}
		who, what, ok := strings.Cut(line, "> ")
		who, count, _ := strings.Cut(who, ".")
		if !ok || players[who] == nil {
			continue
		}
		out.WriteString(line + "\n")
		p := players[who]
		what = strings.ReplaceAll(what, "{reply}", p.reply)
		p.send(strings.ReplaceAll(what, "|", "\r\n") + "\r\n")
		wait, _ := strconv.Atoi(count)
		p.until(t, who, wait, &out)
		for _, other := range order {
			if other != who {
				players[other].until(t, other, 0, &out)
			}
		}
	}
	return out.String()
}

var (
	privateReply = regexp.MustCompile(`_R_\.\S+`)
	volatile     = regexp.MustCompile(`"(rtt|id|start|ver|host)":("[^"]*"|\d+),?`)
	moment       = regexp.MustCompile(`\.\d{19}\b`)
	apiAnswer    = regexp.MustCompile(`\d+\|\{"type":"io.nats.jetstream.api.v1.(\w+)".*?(,"error":\{.*?\})?.*`)
)

// until writes down what comes, at least so many messages and what comes before a PONG then, sorted: which of several
// subscriptions is first is free.
func (p *player) until(t *testing.T, who string, wait int, out *strings.Builder) {
	t.Helper()
	var frames []string
	asked := false
	for {
		if !asked && len(frames) >= wait {
			asked = true
			p.send("PING\r\n")
		}
		line, err := p.r.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %v after\n%s%q", who, err, out, frames)
		}
		line = strings.TrimRight(line, "\r\n")
		f := strings.Fields(line)
		switch f[0] {
		case "PONG":
			slices.Sort(frames)
			out.WriteString(strings.Join(frames, ""))
			return
		case "PING":
			p.send("PONG\r\n")
			continue
		case "INFO":
			continue
		case "MSG", "HMSG":
			size, _ := strconv.Atoi(f[len(f)-1])
			data := make([]byte, size+2)
			if _, err := io.ReadFull(p.r, data); err != nil {
				t.Fatalf("%s: %v", who, err)
			}
			if n := len(f); n == 5 && f[0] == "MSG" {
				p.reply = f[3]
			} else if n == 6 {
				p.reply = f[3]
			}
			if f[0] == "HMSG" && strings.Contains(string(data), "Nats-Request-Info") {
				line = strings.Join(f[:len(f)-2], " ") // the sizes depend on what is left out
			}
			line += "|" + strings.ReplaceAll(strings.TrimSuffix(string(data), "\r\n"), "\r\n", "|")
			line = volatile.ReplaceAllString(line, "")
			line = strings.ReplaceAll(line, `,}`, `}`)
			line = apiAnswer.ReplaceAllString(moment.ReplaceAllString(line, ".T"), "$1$2")
		}
		frames = append(frames, who+"< "+privateReply.ReplaceAllString(line, "_R_")+"\n")
	}
}

// TestSharingDifferential plays random scenarios to Sluice and to nats-server.
func TestSharingDifferential(t *testing.T) {
	const accounts = `
accounts {
  A { users [{user: a, password: p}]
      exports [{stream: "s.>"}, {stream: "t.*.*"}, {service: "r.>"}, {service: "q.*.*", response: stream}], mappings {m.*: "s.$1", "n.*.*": "r.$2.$1"} }
  B { users [{user: b, password: p}]
      imports [{stream: {account: A, subject: "s.>"}, prefix: x}, {stream: {account: A, subject: "t.*.*"}, to: "x.$2.$1"}
               {service: {account: A, subject: "r.>"}, to: "u.>"}, {service: {account: A, subject: "q.*.*"}, to: "v.$2.$1"}]
      exports [{service: "u.>"}, {stream: "x.>"}] }
  C { users [{user: c, password: p}], imports [{service: {account: B, subject: "u.>"}, to: "w.>"}, {stream: {account: B, subject: "x.>"}}] }
}`
	address, _ := startReference(t, "listen: \"127.0.0.1:-1\"\nserver_name: test\nhttp: \"127.0.0.1:-1\"\njetstream { store_dir: \"%s\" }\n"+accounts)
	n, _ := start(t, load(t, "listen: \"127.0.0.1:-1\"\nserver_name: test\njetstream { }\nstore: \"mem://\"\n"+accounts))
	seed := rand.Uint64()
	for i := range 20 {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		pick := func(list ...string) string { return list[random.IntN(len(list))] }
		var script strings.Builder
		script.WriteString("a> SUB inbox 100\nb> SUB inbox 100\nc> SUB inbox 100\n")
		for k := range 60 {
			who := pick("a", "b", "c")
			first := pick("s", "t", "r", "q", "m", "n", "x", "u", "v", "w")
			token := func() string { return pick("s", "1", "2", "y") }
			switch random.IntN(5) {
			case 4:
				fmt.Fprintf(&script, "%s> PUB {reply} %s\n", who, pick("1|r", "0|", "inbox 1|r"))
			case 0:
				subj := first + pick(".>", ".*", ".*.*", "."+token(), "."+token()+"."+token(), ".s.>", ".s.*")
				queue := ""
				if random.IntN(4) == 0 {
					queue = fmt.Sprintf(" g%d", k) // alone in its group, or chance decides
				}
				fmt.Fprintf(&script, "%s> SUB %s%s %d\n", who, subj, queue, k)
			case 1:
				fmt.Fprintf(&script, "%s> UNSUB %d\n", who, random.IntN(k+1))
			default:
				subj := first + "." + token() + pick("", "."+token())
				fmt.Fprintf(&script, "%s> PUB %s %s 1|%d\n", who, subj, pick("", "inbox"), k%10)
			}
		}
		for _, who := range []string{"a", "b", "c"} { // nothing is left to the next scenario
			fmt.Fprintf(&script, "%s> UNSUB 100", who)
			for k := range 60 {
				fmt.Fprintf(&script, "|UNSUB %d", k)
			}
			script.WriteString("\n")
		}
		got, want := play(t, n.ClientURL(), script.String()), play(t, address, script.String())
		if got != want {
			t.Fatalf("seed %d, scenario %d: Sluice says\n%s\nof\n%s", seed, i, differing(got, want), got)
		}
	}
}
