package stream

import (
	"maps"
	"reflect"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

// CheckUpdate decides whether a stream's configuration may become another, with the errors of nats-server. Both are as
// CheckConfig returned them. The result is the configuration to take: sealing a stream changes more than one setting.
func CheckUpdate(old, cfg api.StreamConfig) (api.StreamConfig, error) {
	const update = "stream configuration update can not "
	switch {
	case cfg.Name != old.Name:
		return cfg, invalid("stream configuration name must match original")
	case cfg.Storage != old.Storage:
		return cfg, invalid(update + "change storage type")
	case cfg.Retention != old.Retention && (old.Retention == api.WorkQueuePolicy || cfg.Retention == api.WorkQueuePolicy):
		return cfg, invalid(update + "change retention policy to/from workqueue")
	case old.Sealed && !cfg.Sealed:
		return cfg, invalid(update + "unseal a sealed stream")
	case old.DenyDelete && !cfg.DenyDelete:
		return cfg, invalid(update + "cancel deny message deletes")
	case old.DenyPurge && !cfg.DenyPurge:
		return cfg, invalid(update + "cancel deny purge")
	case cfg.Mirror != nil && !reflect.DeepEqual(cfg.Mirror, old.Mirror):
		return cfg, jserr.New(jserr.StreamMirrorNotUpdatable)
	case old.AllowMsgTTL && !cfg.AllowMsgTTL:
		return cfg, invalid("message TTL status can not be disabled")
	case old.AllowMsgCounter != cfg.AllowMsgCounter:
		return cfg, invalid(update + "change message counter setting")
	case old.AllowMsgSchedules && !cfg.AllowMsgSchedules:
		return cfg, invalid("message schedules can not be disabled")
	case old.PersistMode != cfg.PersistMode:
		return cfg, invalid(update + "change persist mode")
	}
	if cfg.Sealed {
		cfg.MaxAge = 0
		cfg.Discard = api.DiscardNew
		cfg.DenyDelete, cfg.DenyPurge = true, true
		cfg.RollupAllowed = false
	}
	return cfg, nil
}

// Identical reports whether two checked configurations ask for the same stream: creating a stream again is no error
// then. The API level that they were noted with does not matter.
func Identical(a, b api.StreamConfig) bool {
	a.Metadata, b.Metadata = ownMetadata(a), ownMetadata(b)
	return reflect.DeepEqual(a, b)
}

func ownMetadata(cfg api.StreamConfig) map[string]string {
	m := maps.Clone(cfg.Metadata)
	for _, key := range []string{MetadataLevel, MetadataVersion, MetadataServerLevel} {
		delete(m, key)
	}
	if len(m) == 0 {
		return nil
	}
	return m
}
