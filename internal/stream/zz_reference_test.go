package stream

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
	"github.com/nats-io/nats.go"

	"github.com/sluicemq/sluice/internal/jserr"
)

func refConn(t *testing.T) *nats.Conn {
	url := os.Getenv("REF_URL")
	if url == "" {
		t.Skip()
	}
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	return nc
}

func pick[T any](rng *rand.Rand, vs ...T) T { return vs[rng.IntN(len(vs))] }

func randCfg(rng *rand.Rand, n int) api.StreamConfig {
	cfg := api.StreamConfig{Name: "RS"}
	for range n {
		switch rng.IntN(32) {
		case 0:
			cfg.Name = pick(rng, "", "a b", "x.y", "RS", "a*", "a/b", strings.Repeat("x", 256), "RS", "RS")
		case 1:
			cfg.Description = pick(rng, "hello", strings.Repeat("d", 4097))
		case 2, 3, 4:
			cfg.Subjects = pick(rng, []string{"a", "b"}, []string{"a.*", "a.b"}, []string{">"}, []string{"$JS.>"}, []string{"$JS.EVENT.ADVISORY.>"}, []string{"$SYS.ACCOUNT.*.x"}, []string{"$SYS.x"}, []string{"*.b"}, []string{"a", "a"}, []string{"a..b"}, []string{"a b"}, []string{"$JSC.x", "k"}, []string{"foo.>"}, []string{"*"}, []string{"*.>"}, []string{"$NRG.a"})
		case 5:
			cfg.MaxConsumers = pick(rng, -1, -5, 0, 10)
		case 6:
			cfg.MaxMsgs = pick[int64](rng, -1, -7, 0, 5)
		case 7:
			cfg.MaxBytes = pick[int64](rng, -1, -7, 0, 5000)
		case 8:
			cfg.MaxMsgsPer = pick[int64](rng, -1, -7, 0, 5)
		case 9:
			cfg.MaxMsgSize = pick[int32](rng, -1, -7, 0, 5)
		case 10, 11:
			cfg.MaxAge = pick(rng, -1, 0, time.Millisecond, time.Second, time.Hour)
		case 12, 13:
			cfg.Duplicates = pick(rng, -1, 0, time.Millisecond, time.Second, time.Hour)
		case 14:
			cfg.Storage = pick(rng, api.FileStorage, api.MemoryStorage)
		case 15:
			cfg.Discard = pick(rng, api.DiscardOld, api.DiscardNew)
		case 16:
			cfg.DiscardNewPer = true
		case 17:
			cfg.Replicas = pick(rng, 0, 1, 6, -1)
		case 18:
			cfg.NoAck = true
		case 19:
			cfg.Sealed = rng.IntN(4) == 0
		case 20:
			cfg.DenyDelete = true
		case 21:
			cfg.DenyPurge = true
		case 22:
			cfg.RollupAllowed = true
		case 23:
			cfg.AllowDirect = true
		case 24:
			cfg.MirrorDirect = rng.IntN(4) == 0
		case 25:
			cfg.Metadata = pick(rng, map[string]string{"a": "b"}, map[string]string{"_nats.ver": "1"}, map[string]string{"_nats.req.level": "3"}, map[string]string{"x": strings.Repeat("v", 129<<10)}, map[string]string{})
		case 26:
			cfg.Placement = pick(rng, &api.Placement{}, &api.Placement{Preferred: "x"}, &api.Placement{Tags: []string{"t"}})
		case 27:
			cfg.PersistMode = api.AsyncPersistMode
		case 28:
			cfg.Compression = api.S2Compression
		case 29:
			cfg.FirstSeq = pick[uint64](rng, 0, 1, 100)
		case 30:
			cfg.ConsumerLimits = api.StreamConsumerLimits{InactiveThreshold: pick(rng, 0, -1, time.Second), MaxAckPending: pick(rng, 0, 5, -1)}
		case 31:
			if os.Getenv("REF_TRANSFORM") != "" {
				tr := func() (a, b string) {
					return pick(rng, "", ">", "a", "a.*", "foo.>", "a..b", "b.*.*"), pick(rng, "", ">", "c", "c.$1", "c.{{wildcard(1)}}", "bar.>", "c.*", "c.{{partition(3,1)}}", "c.{{bad(1)}}", "c.$5", "a", "x.{{split(1,-)}}", "q.{{left(1,2)}}")
				}
				if rng.IntN(2) == 0 {
					a, b := tr()
					cfg.SubjectTransform = &api.SubjectTransformConfig{Source: a, Destination: b}
				} else {
					a, b := tr()
					cfg.RePublish = &api.RePublish{Source: a, Destination: b, HeadersOnly: rng.IntN(2) == 0}
				}
			}
		}
	}
	return cfg
}

type refResp struct {
	Error  *api.ApiError     `json:"error"`
	Config *api.StreamConfig `json:"config"`
}

func refCall(t *testing.T, nc *nats.Conn, op string, cfg api.StreamConfig, pedantic bool) refResp {
	body, err := json.Marshal(api.JSApiStreamCreateRequest{StreamConfig: cfg, Pedantic: pedantic})
	if err != nil {
		t.Fatal(err)
	}
	m, err := nc.Request("$JS.API.STREAM."+op+"."+cfg.Name, body, 5*time.Second)
	if err != nil {
		t.Fatalf("%v for %s", err, body)
	}
	var r refResp
	if err := json.Unmarshal(m.Data, &r); err != nil {
		t.Fatal(err)
	}
	if r.Error == nil && r.Config == nil {
		fmt.Printf("%s -> %s\n", body, m.Data)
		return refCall(t, nc, op, cfg, pedantic)
	}
	return r
}

func sameErr(err error, ref *api.ApiError) bool {
	if err == nil || ref == nil {
		return err == nil && ref == nil
	}
	e := err.(*jserr.Error)
	return uint16(e.Code) == ref.ErrCode && e.Description == ref.Description && e.Status == ref.Code
}

func normal(cfg api.StreamConfig) api.StreamConfig {
	if len(cfg.Metadata) > 0 {
		m := map[string]string{}
		for k, v := range cfg.Metadata {
			if k != "_nats.ver" && k != "_nats.level" {
				m[k] = v
			}
		}
		cfg.Metadata = m
	}
	return cfg
}

func TestReferenceConfig(t *testing.T) {
	nc := refConn(t)
	bad := 0
	for seed := range 15000 {
		rng := rand.New(rand.NewPCG(uint64(seed), 3))
		cfg := randCfg(rng, 1+rng.IntN(6))
		pedantic := rng.IntN(3) == 0
		if strings.ContainsAny(cfg.Name, " .*/") || cfg.Name == "" {
			continue
		}
		nc.Request("$JS.API.STREAM.DELETE.RS", nil, time.Second)
		ref := refCall(t, nc, "CREATE", cfg, pedantic)
		got, err := CheckCreate(cfg, Limits{}, pedantic)
		if !sameErr(err, ref.Error) {
			j, _ := json.Marshal(cfg)
			t.Errorf("%d %s pedantic %t\n got %v\n ref %+v", seed, j, pedantic, err, ref.Error)
			bad++
		} else if err == nil && !reflect.DeepEqual(normal(got), normal(*ref.Config)) {
			t.Errorf("%d\n got %+v\n ref %+v", seed, normal(got), normal(*ref.Config))
			bad++
		} else if err == nil {
			next := randCfg(rng, 1+rng.IntN(4))
			if rng.IntN(2) == 0 {
				next = got
				x := randCfg(rng, 3)
				next.Sealed, next.DenyDelete, next.DenyPurge, next.PersistMode, next.MaxMsgs, next.RollupAllowed = x.Sealed, x.DenyDelete, x.DenyPurge, x.PersistMode, x.MaxMsgs, x.RollupAllowed
			}
			if next.Name != "RS" {
				continue
			}
			ref := refCall(t, nc, "UPDATE", next, pedantic)
			c2, err := CheckConfig(next, Limits{}, pedantic)
			if err == nil {
				c2, err = CheckUpdate(got, c2)
			}
			if !sameErr(err, ref.Error) {
				j, _ := json.Marshal(next)
				t.Errorf("update %d %s pedantic %t\n got %v\n ref %+v", seed, j, pedantic, err, ref.Error)
				bad++
			} else if err == nil && !reflect.DeepEqual(normal(c2), normal(*ref.Config)) {
				t.Errorf("update %d\n got %+v\n ref %+v", seed, normal(c2), normal(*ref.Config))
				bad++
			}
			if ref := refCall(t, nc, "CREATE", next, false); err == nil && !next.Sealed {
				if again, err := CheckCreate(next, Limits{}, false); err == nil && Identical(again, c2) != (ref.Error == nil) {
					t.Errorf("identical %d: %v, ref %+v", seed, Identical(again, c2), ref.Error)
				}
			}
		}
		if bad > 12 {
			break
		}
	}
	fmt.Println("done")
}
