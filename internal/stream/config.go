package stream

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

// Bounds of a configuration, as in NATS.
const (
	maxNameBytes        = 255
	maxDescriptionBytes = 4 << 10
	maxMetadataBytes    = 128 << 10
	// defaultDuplicates is the window in which a message id is not taken twice, where nothing shorter is asked.
	defaultDuplicates = 2 * time.Minute
	// leastDuration is the shortest max_age and duplicate window.
	leastDuration = 100 * time.Millisecond
)

// Limits are what the server and the account allow a stream.
type Limits struct {
	// MaxBytesRequired: a stream must bound its bytes.
	MaxBytesRequired bool
	// MemoryMaxStreamBytes and StoreMaxStreamBytes bound max_bytes by the kind of storage; 0 and less: no bound.
	MemoryMaxStreamBytes, StoreMaxStreamBytes int64
	// Duplicates bounds the duplicate window; 0: no bound.
	Duplicates time.Duration
	// Settles: the caller deletes what interest and work-queue retention have no use for any more. Without it these
	// retention policies are refused.
	Settles bool
	// Lookup finds the configuration of another stream of the account; nil: there are none.
	Lookup func(name string) (api.StreamConfig, bool)
}

func (l *Limits) lookup(name string) (api.StreamConfig, bool) {
	if l.Lookup == nil {
		return api.StreamConfig{}, false
	}
	return l.Lookup(name)
}

// MetadataLevel, MetadataVersion and MetadataServerLevel are the metadata of an asset that belong to the server
// (ADR-44). The first is part of a checked configuration, the others are added when it is reported.
const (
	MetadataLevel       = "_nats.req.level"
	MetadataVersion     = "_nats.ver"
	MetadataServerLevel = "_nats.level"
)

// CheckCreate is CheckConfig with the rules that hold for a new stream only.
func CheckCreate(cfg api.StreamConfig, limits Limits, pedantic bool) (api.StreamConfig, error) {
	switch {
	case cfg.Sealed:
		return cfg, invalid("stream configuration for create can not be sealed")
	case cfg.MirrorDirect && cfg.Mirror == nil:
		return cfg, invalid("stream has no mirror but does have mirror direct")
	}
	return CheckConfig(cfg, limits, pedantic)
}

// CheckConfig completes a configuration with the defaults and refuses what is not valid, with the errors of
// nats-server. Errors are *jserr.Error. A pedantic request is refused where a value would have to be corrected.
// What it returns shares no memory with cfg.
func CheckConfig(cfg api.StreamConfig, limits Limits, pedantic bool) (api.StreamConfig, error) {
	cfg = clone(cfg)
	checks := []func(*api.StreamConfig, Limits, bool) error{
		checkName, checkKinds, setDefaults, checkAges, checkFeatures,
		checkMirror, checkSources, checkExternal, checkCycles, checkSubjects, checkBytes, checkTransforms, checkPlacement,
	}
	for _, check := range checks {
		if err := check(&cfg, limits, pedantic); err != nil {
			return api.StreamConfig{}, err
		}
	}
	setLevel(&cfg)
	return cfg, nil
}

// clone copies what the checks change.
func clone(cfg api.StreamConfig) api.StreamConfig {
	cfg.Subjects = append([]string(nil), cfg.Subjects...)
	cfg.Metadata = maps.Clone(cfg.Metadata)
	if len(cfg.Sources) == 0 {
		cfg.Sources = nil
	}
	if cfg.RePublish != nil {
		r := *cfg.RePublish
		cfg.RePublish = &r
	}
	if cfg.SubjectTransform != nil {
		t := *cfg.SubjectTransform
		cfg.SubjectTransform = &t
	}
	if cfg.Placement != nil {
		p := *cfg.Placement
		p.Tags = append([]string(nil), p.Tags...)
		cfg.Placement = &p
	}
	return cfg
}

func invalid(format string, args ...any) error {
	return jserr.New(jserr.StreamInvalidConfig, "err", fmt.Sprintf(format, args...))
}

func notPedantic(text string) error { return jserr.New(jserr.Pedantic, "err", text) }

func checkName(cfg *api.StreamConfig, _ Limits, _ bool) error {
	switch {
	case cfg.Name == "" || strings.ContainsAny(cfg.Name, " \t\r\n\f.*>\\/"):
		return invalid(`stream name is required and can not contain '.', '*', '>', '\', '/'`)
	case len(cfg.Name) > maxNameBytes:
		return invalid("stream name is too long, maximum allowed is %d", maxNameBytes)
	case len(cfg.Description) > maxDescriptionBytes:
		return invalid("stream description is too long, maximum allowed is %d", maxDescriptionBytes)
	}
	n := 0
	for k, v := range cfg.Metadata {
		n += len(k) + len(v)
	}
	if n > maxMetadataBytes {
		return invalid("stream metadata exceeds maximum size of %d bytes", maxMetadataBytes)
	}
	return nil
}

func checkKinds(cfg *api.StreamConfig, _ Limits, _ bool) error {
	kinds := []struct {
		marshal func() ([]byte, error)
		text    string
	}{
		{cfg.Retention.MarshalJSON, "invalid retention"},
		{cfg.Discard.MarshalJSON, "invalid discard policy"},
		{cfg.Compression.MarshalJSON, "invalid compression"},
		{cfg.Storage.MarshalJSON, "invalid storage type"},
	}
	for _, k := range kinds {
		if _, err := k.marshal(); err != nil {
			return invalid("%s", k.text)
		}
	}
	return nil
}

func setDefaults(cfg *api.StreamConfig, _ Limits, pedantic bool) error {
	switch {
	case cfg.Replicas == 0:
		cfg.Replicas = api.StreamDefaultReplicas
	case cfg.Replicas > api.StreamMaxReplicas:
		return invalid("maximum replicas is %d", api.StreamMaxReplicas)
	case cfg.Replicas < 0:
		return jserr.New(jserr.ReplicasCountCannotBeNegative)
	}
	maxSize, maxConsumers := int64(cfg.MaxMsgSize), int64(cfg.MaxConsumers)
	for _, l := range []struct {
		limit *int64
		name  string
	}{
		{&cfg.MaxMsgs, "max_msgs"},
		{&cfg.MaxMsgsPer, "max_msgs_per_subject"},
		{&cfg.MaxBytes, "max_bytes"},
		{&maxSize, "max_msg_size"},
		{&maxConsumers, "max_consumers"},
	} {
		if pedantic && *l.limit < -1 {
			return notPedantic(l.name + " must be set to -1")
		}
		if *l.limit <= 0 {
			*l.limit = -1
		}
	}
	cfg.MaxMsgSize, cfg.MaxConsumers = int32(maxSize), int(maxConsumers)
	return nil
}

func checkAges(cfg *api.StreamConfig, limits Limits, pedantic bool) error {
	switch {
	case cfg.MaxAge < 0:
		return invalid("max age can not be negative")
	case cfg.MaxAge != 0 && cfg.MaxAge < leastDuration:
		return invalid("max age needs to be >= 100ms")
	}
	if cfg.Duplicates == 0 && !sources(cfg) {
		if err := defaultWindow(cfg, limits, pedantic); err != nil {
			return err
		}
	}
	switch {
	case cfg.Duplicates < 0:
		return invalid("duplicates window can not be negative")
	case cfg.MaxAge != 0 && cfg.Duplicates > cfg.MaxAge:
		return invalid("duplicates window can not be larger then max age")
	case limits.Duplicates > 0 && cfg.Duplicates > limits.Duplicates:
		return invalid("duplicates window can not be larger then server limit of %v", limits.Duplicates)
	case cfg.Duplicates > 0 && cfg.Duplicates < leastDuration:
		return invalid("duplicates window needs to be >= 100ms")
	}
	return nil
}

func defaultWindow(cfg *api.StreamConfig, limits Limits, pedantic bool) error {
	window := defaultDuplicates
	if limits.Duplicates > 0 && limits.Duplicates < window {
		if pedantic {
			return notPedantic("duplicate window limits are higher than current limits")
		}
		window = limits.Duplicates
	}
	if cfg.MaxAge != 0 && cfg.MaxAge < window {
		if pedantic {
			return notPedantic("duplicate window cannot be bigger than max age")
		}
		window = cfg.MaxAge
	}
	cfg.Duplicates = window
	return nil
}

// checkFeatures refuses what does not go together, and what is not there yet.
func checkFeatures(cfg *api.StreamConfig, limits Limits, pedantic bool) error {
	if cfg.DenyPurge && cfg.RollupAllowed {
		return invalid("roll-ups require the purge permission")
	}
	if err := checkSupported(cfg, limits); err != nil {
		return err
	}
	if err := checkCounter(cfg); err != nil {
		return err
	}
	if cfg.DiscardNewPer {
		if cfg.Discard != api.DiscardNew {
			return invalid("discard new per subject requires discard new policy to be set")
		}
		if cfg.MaxMsgsPer <= 0 {
			return invalid("discard new per subject requires max msgs per subject > 0")
		}
	}
	if err := completeMarkers(cfg, pedantic); err != nil {
		return err
	}
	if err := completeSchedules(cfg, pedantic); err != nil {
		return err
	}
	if cfg.PersistMode == api.AsyncPersistMode {
		if cfg.Storage != api.FileStorage {
			return invalid("async persist mode is only supported on file storage")
		}
		if cfg.Replicas > 1 {
			return invalid("async persist mode is not supported on replicated streams")
		}
		if cfg.AllowAtomicPublish {
			return invalid("async persist mode is not supported with atomic batch publish")
		}
	}
	return nil
}

// checkCounter refuses what does not go together with counters.
func checkCounter(cfg *api.StreamConfig) error {
	switch {
	case !cfg.AllowMsgCounter:
	case cfg.Discard == api.DiscardNew:
		return invalid("counter stream cannot use discard new")
	case cfg.AllowMsgTTL:
		return invalid("counter stream cannot use message TTLs")
	case cfg.AllowMsgSchedules:
		return invalid("counter stream cannot use message schedules")
	case cfg.Retention != api.LimitsPolicy:
		return invalid("counter stream can only use limits retention")
	}
	return nil
}

// completeMarkers switches on what delete markers need.
func completeMarkers(cfg *api.StreamConfig, pedantic bool) error {
	switch ttl := cfg.SubjectDeleteMarkerTTL; {
	case ttl < 0:
		return invalid("subject delete marker TTL must not be negative")
	case ttl == 0:
		return nil
	case ttl < time.Second:
		return invalid("subject delete marker TTL must be at least 1 second")
	case pedantic && !cfg.AllowMsgTTL:
		return invalid("subject delete marker cannot be set if message TTLs are disabled")
	case pedantic && !cfg.RollupAllowed:
		return invalid("subject delete marker cannot be set if roll-ups are disabled")
	}
	cfg.AllowMsgTTL = true
	allowRollups(cfg)
	return nil
}

// completeSchedules switches on what schedules need.
func completeSchedules(cfg *api.StreamConfig, pedantic bool) error {
	switch {
	case !cfg.AllowMsgSchedules:
		return nil
	case cfg.Discard == api.DiscardNew:
		return invalid("message scheduling cannot use discard new")
	case pedantic && !cfg.RollupAllowed:
		return invalid("message scheduling cannot be set if roll-ups are disabled")
	}
	allowRollups(cfg)
	return nil
}

func allowRollups(cfg *api.StreamConfig) {
	if !cfg.RollupAllowed {
		cfg.RollupAllowed, cfg.DenyPurge = true, false
	}
}

func checkSupported(cfg *api.StreamConfig, limits Limits) error {
	missing := ""
	switch {
	case cfg.Retention == api.InterestPolicy && !limits.Settles:
		missing = "interest retention is"
	case cfg.Retention == api.WorkQueuePolicy && !limits.Settles:
		missing = "work-queue retention is"
	default:
		return nil
	}
	return invalid("%s not supported", missing)
}

func checkBytes(cfg *api.StreamConfig, limits Limits, _ bool) error {
	limit := limits.StoreMaxStreamBytes
	if cfg.Storage == api.MemoryStorage {
		limit = limits.MemoryMaxStreamBytes
	}
	switch {
	case limits.MaxBytesRequired && cfg.MaxBytes <= 0:
		return jserr.New(jserr.StreamMaxBytesRequired)
	case limit > 0 && cfg.MaxBytes > limit:
		return jserr.New(jserr.StreamMaxStreamBytesExceeded)
	}
	return nil
}

func checkPlacement(cfg *api.StreamConfig, _ Limits, _ bool) error {
	p := cfg.Placement
	switch {
	case p == nil:
	case p.Cluster == "" && len(p.Tags) == 0 && p.Preferred == "":
		cfg.Placement = nil
	case p.Preferred != "":
		return invalid("preferred server not permitted in placement")
	}
	return nil
}

// setLevel notes the API level that a server needs for this configuration (ADR-44), and drops what tells of another
// server.
func setLevel(cfg *api.StreamConfig) {
	level := 0
	switch {
	case cfg.AllowBatchPublish:
		level = 4
	case cfg.AllowMsgCounter, cfg.AllowAtomicPublish, cfg.AllowMsgSchedules, cfg.PersistMode == api.AsyncPersistMode:
		level = 2
	case cfg.AllowMsgTTL:
		level = 1
	}
	if cfg.Metadata == nil {
		cfg.Metadata = map[string]string{}
	}
	delete(cfg.Metadata, MetadataVersion)
	delete(cfg.Metadata, MetadataServerLevel)
	cfg.Metadata[MetadataLevel] = strconv.Itoa(level)
}
