package protocol

// Safeguard is one of the rules that keep the protocol safe. The package's tests take each away and show what happens.
type Safeguard uint8

// The safeguards, in the order in which a record meets them. What stands in quotes is what is done without it.
const (
	// CreateOnly: log objects are put with If-None-Match. "A put replaces what is there."
	CreateOnly Safeguard = iota
	// RefusedIsRead: a writer that is answered 412 reads the key back. "Something is there, so it is mine."
	RefusedIsRead
	// RefusedIsNotLost: the same rule, broken the other way. "The offset is another's, so the record goes to the next."
	RefusedIsNotLost
	// DoubtIsRead: a writer whose put timed out reads the key back. "It will have landed."
	DoubtIsRead
	// DoubtIsNotLost: the same rule, broken the other way. "It failed, so the record goes to the next offset."
	DoubtIsNotLost
	// InOrder: a record is acknowledged when all earlier offsets are committed. "When its own object is."
	InOrder
	// FreshEpoch: every start takes an epoch of its own. "A start goes on in the log of the one before."
	FreshEpoch
	// HeadIfMatch: heads are swapped by compare-and-swap. "A head is simply rewritten."
	HeadIfMatch
	// FenceFirst: a log is fenced before it is replayed. "It is replayed up to the first missing offset."
	FenceFirst
	// FindFence: a fencer looks for a fence that is there already. "The first free offset gets one in any case."
	FindFence
	// FenceStays: fences are never deleted. "A log whose records are elsewhere is deleted whole."
	FenceStays
	// EndAtFence: nothing behind a fence counts. "What lies there was written, so it is replayed."
	EndAtFence
	// MarkFirst: an adopter first freezes the dead head. "It copies the list as it is."
	MarkFirst
	// AskTaker: who starts a node whose logs another claim is taking over finds out whose they are. "They are mine."
	AskTaker
	// MovesEnd: no range leaves a list before the head that it came from has let go of it. "An empty one may go."
	MovesEnd
	// FreezeFirst: the manifest is read after the head was taken. "It is read at the start, with everything else."
	FreezeFirst
	// StartHonoured: a log is fenced and replayed from the start that its head tells. "From its offset 0."
	StartHonoured
	// CommittedOnly: a segment holds what is committed. "What is accepted will be."
	CommittedOnly
	// FreshSegmentKey: a segment's key is used once, by one writer. "The first segment is number one."
	FreshSegmentKey
	// SegmentKnown: a manifest lists a segment after its object is known to be stored. "The put was sent."
	SegmentKnown
	// ManifestIfMatch: manifests are swapped by compare-and-swap. "The owner may rewrite its manifest."
	ManifestIfMatch
	// FreshSwap: every swap of a manifest has an id of its own, so that one that was given up is not taken for a later
	// one of the same content. "The content is what I wanted, so my swap has landed."
	FreshSwap
	// Rebase: after a lost swap the segment is given up, and the compaction begins anew from the manifest that won.
	// "The segment is added to that."
	Rebase
	// Yield: who finds records in the manifest that it does not know was succeeded, and puts no version behind that one.
	// "What it does not know is deleted, and it rewrites the segment without."
	Yield
	// SwapKnown: the start moves once the manifest's swap is known to have landed. "It was sent."
	SwapKnown
	// StartKnown: log objects are deleted once the head says that the log starts behind them. "They are in segments."
	StartKnown
	// DropFirst: a segment is deleted after the manifest has dropped it. "Its successor is written."
	DropFirst
	// Grace: segments that no manifest names are deleted after a swap of the manifest that began after they were listed.
	// "Nothing names it, and its writer is fenced."
	Grace
	// OwnGrace: the same when the newest version is the collector's own. "No other writer's swap can land any more."
	OwnGrace
	// ListFirst: the listing comes before that swap. "The newest version is its own; it lists, writes its head to prove
	// that it had not been succeeded, and deletes." An earlier owner may read that version and name a new segment in
	// the next one.
	ListFirst

	safeguards
)

var safeguardNames = [safeguards]string{
	"CreateOnly", "RefusedIsRead", "RefusedIsNotLost", "DoubtIsRead", "DoubtIsNotLost", "InOrder", "FreshEpoch", "HeadIfMatch",
	"FenceFirst", "FindFence", "FenceStays", "EndAtFence", "MarkFirst", "AskTaker", "MovesEnd", "FreezeFirst", "StartHonoured",
	"CommittedOnly", "FreshSegmentKey", "SegmentKnown", "ManifestIfMatch", "FreshSwap", "Rebase", "Yield", "SwapKnown", "StartKnown",
	"DropFirst", "Grace", "OwnGrace", "ListFirst",
}

// String gives the name.
func (s Safeguard) String() string { return safeguardNames[s] }

// has reports whether a safeguard is in force.
func (r *run) has(s Safeguard) bool { return !r.missing[s] }
