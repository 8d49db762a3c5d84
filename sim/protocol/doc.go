// Package protocol is a model of how Sluice commits, fences, takes over, compacts and collects, small enough that every
// order in which things can happen is tried. It shares no code with the packages that it models (wal, head, manifest,
// compaction in the engine), on purpose: it says what they must do, each part on a page.
//
// # The protocol
//
// One stream, one log per start of a node, everything in one store that offers puts with If-None-Match and If-Match.
//
//	acknowledge   put object n of the log if absent; read back after a 412 or a time-out; acknowledge in order (writer.go)
//	take          swap the node's head to the next epoch, keeping the list of logs to replay (claim.go)
//	adopt         mark the dead node's head, add its logs to the own head, empty its head (claim.go)
//	fence         create a fence at the first free offset of each open log; note in the head where it lies (fence.go)
//	recover       read the manifest, its segments, and the logs from the sequence on that they reach (recovery.go)
//	compact       put a segment, swap the manifest to name it, move the logs' starts in the head, delete below (compactor.go)
//	collect       list the segments, swap the manifest, delete what was listed and is not named (collector.go)
//
// A process may stop after any step, for good or for a while, and any other may begin its claim at any time, whether the
// one before is dead or not. So there are no crashes and no leases in the model; safety depends on neither. A write may
// land without an answer, land at any later time, land twice, or be answered 412 because of itself (store.go).
//
// # The safeguards
//
// [Safeguard] names each rule that this depends on. Without any one of them something breaks; the tests show the
// shortest way (go test ./sim/protocol -run Without -v).
//
// # The invariants
//
// Looked at in every state (invariant.go):
//
//   - If everybody died now, one more node would recover: every acknowledged record at its sequence, in order; nothing
//     twice; of no writer a record without those before it; nothing that nobody appended.
//   - No two records are acknowledged at one sequence, and no two processes own the stream in one generation.
//   - A writer that was succeeded acknowledges only what its successor has recovered. (It may acknowledge after that: what
//     lay before the fence was replayed.)
//   - What the manifest names is there, and so is what a head lists of a log and no segment has.
//   - At one offset of a log there is only ever one batch, at one key only ever one segment. (A fence that lands late may
//     lie where a batch was deleted, below the start: nobody looks there.)
//
// # What is not modelled
//
// Time, and so leases: that an owner which is cut off stops serving reads is not shown here. Several streams in one log;
// several heirs of one; records in batches of many; deletes and retention; the broadcast log; damaged objects; that a log
// has at most 16 puts under way (here 2), which lets a fencer look for the fence among the last 16 objects. A listing is
// one moment, and so is a replay: what it reads is immutable, and whatever deletes it meanwhile has deleted it before as
// well.
//
// # Running it
//
//	go test ./sim/protocol                     every setting, most with one fault; every safeguard taken away; 10 s
//	make model DEPTH=2                         every setting with two faults; minutes, and some gigabytes of memory
//	go test ./sim/protocol -run Explore -v -setting compact -depth 2
package protocol
