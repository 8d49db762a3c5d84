package sluice_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluicemq/sluice"
)

// A program that carries its message bus with it, and connects to it without the network.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	srv, err := sluice.New(sluice.Options{Name: "example", Store: "mem://", Port: sluice.NoPort})
	if err != nil {
		log.Fatal(err)
	}
	if err := srv.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer srv.Shutdown(context.Background())

	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()

	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "settings"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := kv.PutString(ctx, "colour", "blue"); err != nil {
		log.Fatal(err)
	}
	entry, err := kv.Get(ctx, "colour")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(entry.Key(), "is", string(entry.Value()), "at revision", entry.Revision())
	// Output: colour is blue at revision 1
}
