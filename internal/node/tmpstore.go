package node

import (
	"context"
	"strings"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/dir"
	"github.com/sluicemq/sluice/internal/store/mem"
)

func openStore(ctx context.Context, url string) (store.Store, error) {
	if strings.HasPrefix(url, "mem:") {
		return mem.New(mem.Options{})
	}
	return dir.Open(ctx, dir.Options{Path: strings.TrimPrefix(url, "dir://")})
}
