package s3

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/storetest"
	"github.com/sluicemq/sluice/internal/store/storetest/gateway"
)

func TestAcceptance(t *testing.T) {
	server := gateway.StartS3(t)
	var opened atomic.Int64
	storetest.Run(t, func(t *testing.T) store.Store {
		s, err := Open(t.Context(), Options{
			Bucket: server.Bucket, Prefix: fmt.Sprintf("t%d", opened.Add(1)), Endpoint: server.Endpoint, PathStyle: true,
			Credentials: server.Credentials(),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	})
}
