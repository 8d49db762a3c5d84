package protocol

// slotState is where an appended record is on its way.
type slotState uint8

const (
	accepted slotState = iota // its put is under way as soon as the pipeline has room
	doubtful                  // its put was refused or in doubt: the key is read back
	settled                   // its object is in the store
	acked
)

// slot is a record and the offset that it is put at.
type slot struct {
	state slotState
	at    uint8
}

// writerState is a log that is being written: see package wal.
type writerState struct {
	slots [maxAppends]slot
	acked uint8 // so many, from the first one
	top   uint8 // the highest offset that was given out
	ended bool  // it has met a fence or another writer: it acknowledges nothing more
}

// beginWriting accepts all the records of a process at once.
func (p *process) beginWriting(first uint8, n int) {
	p.writerState = writerState{top: first}
	for i := range n {
		p.top = first + uint8(i)
		p.slots[i].at = p.top
	}
}

// put takes a step with the record in a slot: puts it, or reads back what became of that.
func (r *run) put(p *process, i int) bool {
	s := &p.slots[i]
	if p.ended || s.state > doubtful || i >= int(p.acked)+r.setting.Pipeline || s.at >= maxOffsets {
		return false
	}
	log, rec := logOf(p.node, p.epoch), recordOf(int(p.id)-1, i)
	if s.state == doubtful {
		r.readBack(p, s, log, rec)
		return true
	}
	q := request{kind: putLog, condition: ifAbsent, by: p.id, log: log, at: s.at,
		object: object{kind: batchObject, record: rec, seq: p.recovered.n + uint8(i)}}
	if !r.has(CreateOnly) {
		q.condition = always
	}
	switch a := r.send(q); {
	case a == done,
		a == refused && !r.has(RefusedIsRead),
		a == unknown && !r.has(DoubtIsRead):
		s.state = settled
	case a == refused && !r.has(RefusedIsNotLost),
		a == unknown && !r.has(DoubtIsNotLost):
		p.top++
		s.at = p.top
	default:
		s.state = doubtful
	}
	return true
}

// readBack settles a put by what lies at its key.
func (r *run) readBack(p *process, s *slot, log logID, rec record) {
	o := r.w.logs[log][s.at]
	r.say("reads %s/%d back: %s", log, s.at, o)
	switch {
	case o.kind == nothing:
		s.state = accepted
	case o.kind == batchObject && o.record == rec:
		s.state = settled
	default:
		r.say("acknowledges nothing more")
		p.ended = true
		p.slots = [maxAppends]slot{}
	}
}

// acknowledge tells a publisher that its record is committed: its object and all earlier ones are stored.
func (r *run) acknowledge(p *process) bool {
	if p.ended {
		return false
	}
	n := r.appendsOf(p)
	i := int(p.acked)
	if !r.has(InOrder) {
		for i < n && p.slots[i].state != settled {
			i++
		}
	}
	if i >= n || p.slots[i].state != settled {
		return false
	}
	p.slots[i].state = acked
	for int(p.acked) < n && p.slots[p.acked].state == acked {
		p.acked++
	}
	seq := p.recovered.n + uint8(i)
	if seq >= maxRecords {
		return false
	}
	rec := recordOf(int(p.id)-1, i)
	r.say("acknowledges %s as sequence %d", rec, seq)
	r.judgeAck(p, rec, seq)
	return true
}
