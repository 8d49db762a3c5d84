package cli_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluicemq/sluice/test/rig"
)

func TestPublishSubscribe(t *testing.T) {
	c := newCLI(t, rig.StartSluice(t, rig.DirStore(t)))
	sub := c.start(t, "sub", "greet.*", "--count=2")
	sub.await(t, "Subscribing on greet.*")
	// The line above comes before the server has the subscription: publish until something arrives.
	awaitSubscriber(t, c.url, "greet.joe")
	c.run(t, "pub", "greet.joe", "hello joe", "-H", "Colour: blue")
	sub.await(t, "Colour: blue")
	sub.await(t, "hello joe")
}

// awaitSubscriber publishes requests to a subject until somebody listens to it, which the server says at once by not
// answering "no responders".
func awaitSubscriber(t testing.TB, url, subject string) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		_, err := nc.Request(subject, []byte("probe"), 100*time.Millisecond)
		if !errors.Is(err, nats.ErrNoResponders) {
			return
		}
	}
	t.Fatalf("nobody subscribed to %s within %v", subject, patience)
}

func TestRequestReplyWithTwoQueueWorkers(t *testing.T) {
	c := newCLI(t, rig.StartSluice(t, rig.DirStore(t)))
	for _, name := range []string{"one", "two"} {
		w := c.start(t, "reply", "service", "answer of "+name, "--queue", "workers")
		w.await(t, "Listening on")
		awaitSubscriber(t, c.url, "service")
	}
	// Both workers answer sooner or later; each request gets exactly one answer.
	seen := map[string]int{}
	for range 60 {
		out := c.run(t, "request", "service", "question", "--raw", "--replies=1")
		for line := range strings.Lines(out) {
			if _, who, ok := strings.Cut(line, "answer of "); ok {
				seen[strings.TrimSpace(who)]++
			}
		}
		if len(seen) == 2 {
			break
		}
	}
	if len(seen) != 2 {
		t.Errorf("answers came from %v, want both workers", seen)
	}
	// With a wait for further answers, still one only.
	nc, err := nats.Connect(c.url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest("service", sub.Subject, []byte("question")); err != nil {
		t.Fatal(err)
	}
	if _, err := sub.NextMsg(patience); err != nil {
		t.Fatal(err)
	}
	if m, err := sub.NextMsg(200 * time.Millisecond); !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("a second answer: %v %v", m, err)
	}
}

func TestNoResponders(t *testing.T) {
	c := newCLI(t, rig.StartSluice(t, rig.DirStore(t)))
	out, _ := c.try(t, "request", "nobody.home", "hello")
	wantContains(t, out, "No responders are available")
}

func TestManyMessagesBetweenClients(t *testing.T) {
	server := rig.StartSluice(t, rig.DirStore(t))
	const messages = 20_000
	receiver, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	sub, err := receiver.SubscribeSync("numbers.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	if err := receiver.Flush(); err != nil {
		t.Fatal(err)
	}
	sender, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	for i := range messages {
		if err := sender.Publish(fmt.Sprintf("numbers.%d", i%10), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := sender.Flush(); err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		m, err := sub.NextMsg(patience)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if string(m.Data) != fmt.Sprint(i) {
			t.Fatalf("message %d holds %s", i, m.Data)
		}
	}
}
