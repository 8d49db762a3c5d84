package node

import (
	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/engine"
	"github.com/sluicemq/sluice/internal/jsapi"
	"github.com/sluicemq/sluice/internal/monitor"
	"github.com/sluicemq/sluice/internal/version"
)

// stats are the use of the server's JetStream. No stream is asked, so that it costs nothing.
func (st *storage) stats() *monitor.JetStreamStats {
	memory, store := st.engine.Pools()
	c := st.api.Counts()
	return &monitor.JetStreamStats{
		Memory: uint64(memory.Used), Store: uint64(store.Used),
		ReservedMemory: uint64(memory.Reserved), ReservedStore: uint64(store.Reserved),
		Accounts: len(st.engine.Accounts()),
		API:      monitor.JetStreamAPIStats{Level: version.APILevel, Total: c.Requests, Errors: c.Errors, Inflight: uint64(c.Pending)},
	}
}

// JetStream implements monitor.JetStreamSource.
func (s status) JetStream() (js monitor.JetStream, on bool) {
	opts, _, st := s.parts()
	if st == nil {
		return js, false
	}
	js.JetStreamStats = *st.stats()
	js.Config, js.Limits = monitor.ConfigJetStream(&opts), monitor.ConfigJetStreamLimits(&opts)
	js.Config.StoreDir = s.storeURL
	for _, a := range st.engine.Accounts() {
		u := a.Usage()
		js.Streams += u.Streams
		js.Consumers += u.Consumers
		js.Messages += u.Messages
		js.Bytes += u.Memory + u.Store
	}
	return js, true
}

// JetStreamAccounts implements monitor.JetStreamSource.
func (s status) JetStreamAccounts() (names []string) {
	_, _, st := s.parts()
	if st == nil {
		return nil
	}
	for _, a := range st.engine.Accounts() {
		names = append(names, a.Name())
	}
	return names
}

// JetStreamAccount implements monitor.JetStreamSource. As in nats-server the reserved bytes are the account's limits, and
// no limit shows as the largest number.
func (s status) JetStreamAccount(name string, want monitor.JetStreamDetail) (d monitor.AccountDetail, ok bool) {
	_, _, st := s.parts()
	if st == nil {
		return d, false
	}
	a := st.engine.Account(name)
	if a == nil {
		return d, false
	}
	use, limits, c := a.Usage(), a.Limits(), st.api.AccountCounts(a.Space())
	d = monitor.AccountDetail{Name: name, ID: name, JetStreamStats: monitor.JetStreamStats{
		Memory: use.Memory, Store: use.Store, ReservedMemory: uint64(limits.MaxMemory), ReservedStore: uint64(limits.MaxStore),
		API: monitor.JetStreamAPIStats{Total: c.Requests, Errors: c.Errors},
	}}
	if !want.Streams {
		return d, true
	}
	for _, stream := range a.Streams("") {
		if sd, err := s.streamDetail(stream, want); err == nil {
			d.Streams = append(d.Streams, sd)
		} // else it was deleted meanwhile
	}
	return d, true
}

func (s status) streamDetail(stream *engine.Stream, want monitor.JetStreamDetail) (monitor.StreamDetail, error) {
	info, err := stream.Info(api.JSApiStreamInfoRequest{})
	if err != nil {
		return monitor.StreamDetail{}, err
	}
	d := monitor.StreamDetail{Name: stream.Name(), Created: stream.Created(), State: info.State,
		Cluster: struct {
			Leader string `json:"leader"`
		}{s.options().ServerName}}
	if want.Config {
		d.Config = jsapi.StreamConfigDetail(info.Config)
	}
	if info.Mirror != nil {
		d.Mirror = info.Mirror
	}
	for _, source := range info.Sources {
		d.Sources = append(d.Sources, source)
	}
	if !want.Consumers {
		return d, nil
	}
	consumers, err := stream.ConsumerInfos()
	for _, c := range consumers {
		d.Consumers = append(d.Consumers, jsapi.ConsumerDetail(c, want.Config))
	}
	return d, err
}
