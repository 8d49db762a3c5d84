package consumer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/subject"
)

// Defaults and bounds of consumer configurations, those of nats-server.
const (
	DefaultAckWait           = 30 * time.Second
	DefaultMaxAckPending     = 1000
	DefaultMaxWaiting        = 512
	DefaultInactiveThreshold = 5 * time.Second // of ephemeral consumers
	DefaultPinnedTTL         = 2 * time.Minute // of a pinned client that does not ask for messages

	MaxNameBytes        = 255
	MaxDescriptionBytes = 4 << 10
	MaxMetadataBytes    = 128 << 10

	minHeartbeat = 100 * time.Millisecond
)

// Limits are what the server or the account allows; 0 means no limit.
type Limits struct {
	MaxAckPending   int
	MaxRequestBatch int
}

// CheckConfig sets the defaults in a configuration and validates it against that of its stream. In pedantic mode,
// adjusting what the client asked for is an error. Errors are *jserr.Error with nats-server's codes and texts. The
// result shares no memory with cfg. Naming an ephemeral consumer is up to the caller.
func CheckConfig(cfg api.ConsumerConfig, stream api.StreamConfig, limits Limits, pedantic bool) (api.ConsumerConfig, error) {
	cfg = clone(cfg)
	if err := setDefaults(&cfg, &stream, limits, pedantic); err != nil {
		return cfg, err
	}
	for _, check := range []func(*api.ConsumerConfig, *api.StreamConfig, Limits) error{
		checkNames, checkReplicas, checkAcks, checkFlowAcks, checkTexts, checkDelivery, checkLimits, checkDirect, checkFilters,
		checkStart, checkExtras, checkPriority, checkDeadLetter,
	} {
		if err := check(&cfg, &stream, limits); err != nil {
			return cfg, err
		}
	}
	if cfg.Durable == "" && cfg.InactiveThreshold <= 0 {
		cfg.InactiveThreshold = DefaultInactiveThreshold
	}
	return cfg, nil
}

func clone(cfg api.ConsumerConfig) api.ConsumerConfig {
	cfg.BackOff = slices.Clone(cfg.BackOff)
	cfg.FilterSubjects = slices.Clone(cfg.FilterSubjects)
	cfg.PriorityGroups = slices.Clone(cfg.PriorityGroups)
	cfg.Metadata = maps.Clone(cfg.Metadata)
	if cfg.OptStartTime != nil {
		t := *cfg.OptStartTime
		cfg.OptStartTime = &t
	}
	return cfg
}

// Filters lists the subjects that a consumer filters by; none means all.
func Filters(cfg *api.ConsumerConfig) []string {
	if cfg.FilterSubject != "" {
		return append(slices.Clone(cfg.FilterSubjects), cfg.FilterSubject)
	}
	return cfg.FilterSubjects
}

func pedanticError(text string) error { return jserr.New(jserr.Pedantic, "err", text) }

// setDefaults fills in what the client left open, and corrects what makes no sense.
func setDefaults(cfg *api.ConsumerConfig, stream *api.StreamConfig, limits Limits, pedantic bool) error {
	if cfg.MaxDeliver == 0 || cfg.MaxDeliver < -1 {
		if pedantic && cfg.MaxDeliver < -1 {
			return pedanticError("max_deliver must be set to -1")
		}
		cfg.MaxDeliver = -1
	}
	if cfg.MaxAckPending < -1 {
		if pedantic {
			return pedanticError("max_ack_pending must be set to -1")
		}
		cfg.MaxAckPending = -1
	}
	if name := raiseNegatives(cfg); name != "" && pedantic {
		return pedanticError(name + " must not be negative")
	}
	if cfg.DeliverSubject == "" && cfg.MaxWaiting == 0 {
		cfg.MaxWaiting = DefaultMaxWaiting
	}
	if cfg.AckWait == 0 && (cfg.AckPolicy == api.AckExplicit || cfg.AckPolicy == api.AckAll) {
		cfg.AckWait = DefaultAckWait
	}
	if len(cfg.BackOff) > 0 {
		if pedantic && cfg.AckWait != cfg.BackOff[0] {
			return pedanticError("first backoff value has to equal batch AckWait")
		}
		cfg.AckWait = cfg.BackOff[0]
	}
	if err := setLimitDefaults(cfg, &stream.ConsumerLimits, limits, pedantic); err != nil {
		return err
	}
	if cfg.PriorityPolicy == api.PriorityPinnedClient && cfg.PinnedTTL == 0 {
		cfg.PinnedTTL = DefaultPinnedTTL
	}
	if cfg.AckPolicy == api.AckFlowControl && !pedantic {
		cfg.FlowControl, cfg.Heartbeat = true, flowAckHeartbeat
	}
	return nil
}

// raiseNegatives sets what may not be negative to 0, and names the first such field.
func raiseNegatives(cfg *api.ConsumerConfig) (first string) {
	note := func(name string) {
		if first == "" {
			first = name
		}
	}
	if cfg.MaxWaiting < 0 {
		cfg.MaxWaiting = 0
		note("max_waiting")
	}
	if cfg.MaxRequestBatch < 0 {
		cfg.MaxRequestBatch = 0
		note("max_batch")
	}
	if cfg.MaxRequestExpires < 0 {
		cfg.MaxRequestExpires = 0
		note("max_expires")
	}
	if cfg.MaxRequestMaxBytes < 0 {
		cfg.MaxRequestMaxBytes = 0
		note("max_bytes")
	}
	if cfg.Heartbeat < 0 {
		cfg.Heartbeat = 0
		note("idle_heartbeat")
	}
	if cfg.InactiveThreshold < 0 {
		cfg.InactiveThreshold = 0
		note("inactive_threshold")
	}
	if cfg.PinnedTTL < 0 {
		cfg.PinnedTTL = 0
		note("priority_timeout")
	}
	return first
}

// setLimitDefaults takes over what the stream, the account or the server prescribe.
func setLimitDefaults(cfg *api.ConsumerConfig, stream *api.StreamConsumerLimits, limits Limits, pedantic bool) error {
	if cfg.MaxAckPending == 0 && stream.MaxAckPending > 0 {
		if pedantic {
			return pedanticError("max_ack_pending must be set if it's configured in stream limits")
		}
		cfg.MaxAckPending = stream.MaxAckPending
	}
	if cfg.InactiveThreshold == 0 && stream.InactiveThreshold > 0 {
		if pedantic {
			return pedanticError("inactive_threshold must be set if it's configured in stream limits")
		}
		cfg.InactiveThreshold = stream.InactiveThreshold
	}
	if cfg.MaxAckPending == 0 && cfg.AckPolicy != api.AckNone {
		cfg.MaxAckPending = DefaultMaxAckPending
		if limits.MaxAckPending > 0 {
			cfg.MaxAckPending = min(cfg.MaxAckPending, limits.MaxAckPending)
		}
	}
	if cfg.DeliverSubject == "" && cfg.MaxRequestBatch == 0 && limits.MaxRequestBatch > 0 {
		if pedantic {
			return pedanticError("max_request_batch must be set if it's JetStream limits are set")
		}
		cfg.MaxRequestBatch = limits.MaxRequestBatch
	}
	return nil
}

// validName reports whether a name can be a token of a subject and part of a path.
func validName(name string) bool { return name != "" && !strings.ContainsAny(name, " \t\r\n\f.*>\\/") }

func invalid(text string) error { return jserr.New(jserr.StreamInvalidConfig, "err", text) }

func checkNames(cfg *api.ConsumerConfig, _ *api.StreamConfig, _ Limits) error {
	switch {
	case cfg.Name != "" && !validName(cfg.Name):
		return invalid(`consumer name can not contain '.', '*', '>', '\', '/'`)
	case cfg.Durable != "" && !validName(cfg.Durable):
		return invalid(`consumer durable name can not contain '.', '*', '>', '\', '/'`)
	}
	return nil
}

func checkReplicas(cfg *api.ConsumerConfig, stream *api.StreamConfig, _ Limits) error {
	switch {
	case cfg.Replicas > 0 && cfg.Replicas > stream.Replicas:
		return jserr.New(jserr.ConsumerReplicasExceedsStream)
	case cfg.Replicas < 0:
		return jserr.New(jserr.ReplicasCountCannotBeNegative)
	case stream.Retention != api.LimitsPolicy && cfg.Replicas != 0 && cfg.Replicas != stream.Replicas:
		return jserr.New(jserr.ConsumerReplicasShouldMatchStream)
	}
	return nil
}

func checkAcks(cfg *api.ConsumerConfig, _ *api.StreamConfig, _ Limits) error {
	if _, err := cfg.AckPolicy.MarshalJSON(); err != nil {
		return jserr.New(jserr.ConsumerAckPolicyInvalid)
	}
	if _, err := cfg.ReplayPolicy.MarshalJSON(); err != nil {
		return jserr.New(jserr.ConsumerReplayPolicyInvalid)
	}
	for _, d := range cfg.BackOff {
		if d < 0 {
			return jserr.New(jserr.ConsumerBackOffNegative)
		}
	}
	if cfg.AckWait < 0 {
		return jserr.New(jserr.ConsumerAckWaitNegative)
	}
	return nil
}

// flowAckHeartbeat is what the idle heartbeat is where flow control acknowledges.
const flowAckHeartbeat = time.Second

// checkFlowAcks checks what the ack policy flow_control requires.
func checkFlowAcks(cfg *api.ConsumerConfig, _ *api.StreamConfig, _ Limits) error {
	switch {
	case cfg.AckPolicy != api.AckFlowControl:
		return nil
	case cfg.DeliverSubject == "":
		return jserr.New(jserr.ConsumerAckFCRequiresPush)
	case !cfg.FlowControl:
		return jserr.New(jserr.ConsumerAckFCRequiresFC)
	case cfg.Heartbeat != flowAckHeartbeat:
		return invalid("flow control ack policy heartbeat needs to be 1s")
	case cfg.MaxAckPending <= 0:
		return jserr.New(jserr.ConsumerAckFCRequiresMaxAckPending)
	case cfg.AckWait != 0 || len(cfg.BackOff) > 0:
		return jserr.New(jserr.ConsumerAckFCRequiresNoAckWait)
	case cfg.MaxDeliver > 0:
		return jserr.New(jserr.ConsumerAckFCRequiresNoMaxDeliver)
	}
	return nil
}

// checkDirect checks consumers without state, which mirrors and sources use.
func checkDirect(cfg *api.ConsumerConfig, _ *api.StreamConfig, _ Limits) error {
	switch {
	case !cfg.Direct:
		return nil
	case cfg.DeliverSubject == "":
		return jserr.New(jserr.ConsumerDirectRequiresPush)
	case cfg.Durable != "":
		return jserr.New(jserr.ConsumerDirectRequiresEphemeral)
	}
	return nil
}

func checkTexts(cfg *api.ConsumerConfig, _ *api.StreamConfig, _ Limits) error {
	if n := len(cfg.BackOff); n > 0 && cfg.MaxDeliver != -1 && n > cfg.MaxDeliver {
		return jserr.New(jserr.ConsumerMaxDeliverBackoff)
	}
	if len(cfg.Description) > MaxDescriptionBytes {
		return jserr.New(jserr.ConsumerDescriptionTooLong, "max", MaxDescriptionBytes)
	}
	return nil
}

func checkDelivery(cfg *api.ConsumerConfig, stream *api.StreamConfig, limits Limits) error {
	if cfg.DeliverSubject != "" {
		return checkPush(cfg, stream)
	}
	switch {
	case cfg.AckPolicy == api.AckNone && stream.Retention == api.WorkQueuePolicy:
		return jserr.New(jserr.ConsumerPullRequiresAck)
	case cfg.RateLimit > 0:
		return jserr.New(jserr.ConsumerPullWithRateLimit)
	case cfg.Heartbeat > 0:
		return jserr.New(jserr.ConsumerHBRequiresPush)
	case cfg.FlowControl:
		return jserr.New(jserr.ConsumerFCRequiresPush)
	case cfg.MaxRequestExpires != 0 && cfg.MaxRequestExpires < time.Millisecond:
		return jserr.New(jserr.ConsumerMaxRequestExpiresTooSmall)
	case limits.MaxRequestBatch > 0 && cfg.MaxRequestBatch > limits.MaxRequestBatch:
		return jserr.New(jserr.ConsumerMaxRequestBatchExceeded, "limit", limits.MaxRequestBatch)
	}
	return nil
}

func checkPush(cfg *api.ConsumerConfig, stream *api.StreamConfig) error {
	to := cfg.DeliverSubject
	switch {
	case subject.HasWildcard(to):
		return jserr.New(jserr.ConsumerDeliverToWildcards)
	case !subject.Valid(to) || reservedDestination(to):
		return jserr.New(jserr.ConsumerInvalidDeliverSubject)
	case slices.ContainsFunc(stream.Subjects, func(s string) bool { return subject.IsSubset(to, s) }):
		return jserr.New(jserr.ConsumerDeliverCycle)
	case cfg.MaxWaiting != 0:
		return jserr.New(jserr.ConsumerPushMaxWaiting)
	case cfg.MaxAckPending > 0 && cfg.AckPolicy == api.AckNone:
		return jserr.New(jserr.ConsumerMaxPendingAckPolicyRequired)
	case cfg.Heartbeat > 0 && cfg.Heartbeat < minHeartbeat:
		return jserr.New(jserr.ConsumerSmallHeartbeat)
	}
	return nil
}

// reservedDestination reports whether messages to a subject would act on the server itself.
func reservedDestination(s string) bool {
	for _, prefix := range []string{"_R_.", "_GR_.", "$GR."} {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	if !strings.HasPrefix(s, "$JS.") {
		return false
	}
	switch subject.Token(s, 1) {
	case "API", "ACK", "FC", "SNAPSHOT", "EVENT":
		return true
	}
	return subject.Token(s, 2) == "API"
}

func checkLimits(cfg *api.ConsumerConfig, stream *api.StreamConfig, limits Limits) error {
	own := stream.ConsumerLimits
	switch {
	case limits.MaxAckPending > 0 && cfg.MaxAckPending > limits.MaxAckPending:
		return jserr.New(jserr.ConsumerMaxPendingAckExcess, "limit", limits.MaxAckPending)
	case own.MaxAckPending > 0 && cfg.MaxAckPending > own.MaxAckPending:
		return jserr.New(jserr.ConsumerMaxPendingAckExcess, "limit", own.MaxAckPending)
	case own.InactiveThreshold > 0 && cfg.InactiveThreshold > own.InactiveThreshold:
		return jserr.New(jserr.ConsumerInactiveThresholdExcess, "limit", own.InactiveThreshold)
	}
	return nil
}

func checkFilters(cfg *api.ConsumerConfig, _ *api.StreamConfig, _ Limits) error {
	if cfg.FilterSubject != "" && len(cfg.FilterSubjects) > 0 {
		return jserr.New(jserr.ConsumerDuplicateFilterSubjects)
	}
	if slices.Contains(cfg.FilterSubjects, "") {
		return jserr.New(jserr.ConsumerEmptyFilter)
	}
	filters := Filters(cfg)
	for i, f := range filters {
		if !subject.Valid(f) {
			return invalid("invalid subject")
		}
		for j, other := range filters {
			if i != j && subject.Valid(other) && subject.IsSubset(f, other) {
				return jserr.New(jserr.ConsumerOverlappingSubjectFilters)
			}
		}
	}
	return nil
}

// checkStart checks that a start is given exactly where the deliver policy needs one.
func checkStart(cfg *api.ConsumerConfig, _ *api.StreamConfig, _ Limits) error {
	policy := func(text string) error {
		return jserr.New(jserr.ConsumerInvalidPolicy, "err", "consumer delivery policy is deliver "+text)
	}
	hasSeq, hasTime := cfg.OptStartSeq > 0, cfg.OptStartTime != nil
	names := map[api.DeliverPolicy]string{
		api.DeliverAll: "all", api.DeliverLast: "last", api.DeliverNew: "new", api.DeliverLastPerSubject: "last per subject",
	}
	switch name := names[cfg.DeliverPolicy]; {
	case name != "" && hasSeq:
		return policy(name + ", but optional start sequence is also set")
	case name != "" && hasTime:
		return policy(name + ", but optional start time is also set")
	case cfg.DeliverPolicy == api.DeliverLastPerSubject && len(Filters(cfg)) == 0:
		return policy("last per subject, but optional filter subject is not set")
	case cfg.DeliverPolicy == api.DeliverByStartSequence && !hasSeq:
		return policy("by start sequence, but optional start sequence is not set")
	case cfg.DeliverPolicy == api.DeliverByStartSequence && hasTime:
		return policy("by start sequence, but optional start time is also set")
	case cfg.DeliverPolicy == api.DeliverByStartTime && !hasTime:
		return policy("by start time, but optional start time is not set")
	case cfg.DeliverPolicy == api.DeliverByStartTime && hasSeq:
		return policy("by start time, but optional start start sequence is also set")
	}
	if _, err := cfg.DeliverPolicy.MarshalJSON(); err != nil {
		return policy("of an unknown kind")
	}
	return nil
}

func checkExtras(cfg *api.ConsumerConfig, _ *api.StreamConfig, _ Limits) error {
	if cfg.SampleFrequency != "" {
		if n, err := parseSample(cfg.SampleFrequency); err != nil || n < 0 {
			return jserr.New(jserr.ConsumerInvalidSampling, "err", cmpErr(err, "must not be negative"))
		}
	}
	if cfg.FlowControl && cfg.Heartbeat == 0 {
		return jserr.New(jserr.ConsumerWithFlowControlNeedsHeartbeats)
	}
	if cfg.Durable != "" && cfg.Name != "" && cfg.Name != cfg.Durable {
		return jserr.New(jserr.ConsumerCreateDurableAndNameMismatch)
	}
	size := 0
	for k, v := range cfg.Metadata {
		size += len(k) + len(v)
	}
	if size > MaxMetadataBytes {
		return jserr.New(jserr.ConsumerMetadataLength, "limit", fmt.Sprintf("%dKB", MaxMetadataBytes>>10))
	}
	if max(len(cfg.Durable), len(cfg.Name)) > MaxNameBytes {
		return jserr.New(jserr.ConsumerNameTooLong, "max", MaxNameBytes)
	}
	return nil
}

func cmpErr(err error, otherwise string) error {
	if err != nil {
		return err
	}
	return errors.New(otherwise)
}

func parseSample(s string) (int, error) { return strconv.Atoi(strings.TrimSuffix(s, "%")) }

func samplePercent(s string) int {
	n, err := parseSample(s)
	if err != nil {
		return 0
	}
	return n
}
