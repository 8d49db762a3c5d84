package record

import (
	"fmt"
	"strconv"
	"strings"
)

// Describe tells in one line what a record says, for people. A body that does not parse is described as such.
func Describe(r Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "stream %016x ", uint64(r.Stream))
	if err := describeBody(&b, r); err != nil {
		fmt.Fprintf(&b, "kind %d, %d bytes: %v", r.Kind, len(r.Body), err)
	}
	return b.String()
}

func describeBody(b *strings.Builder, r Record) error {
	switch r.Kind {
	case StreamConfig:
		var c StreamConfigBody
		if err := ParseJSON(r.Body, &c); err != nil {
			return err
		}
		fmt.Fprintf(b, "config of stream %q in account %q, subjects %q", c.Config.Name, c.Account, c.Config.Subjects)
	case StreamDelete:
		b.WriteString("delete")
	case StreamSources:
		var s StreamSourcesBody
		if err := ParseJSON(r.Body, &s); err != nil {
			return err
		}
		fmt.Fprintf(b, "positions of %d sources", len(s.Sources))
	case StreamIDs:
		fmt.Fprintf(b, "message ids, %d bytes", len(r.Body))
	case StreamRestore:
		b.WriteString("messages of a restore")
	case Message:
		m, err := ParseMessage(r.Body)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "message %d on %s, header of %d bytes, data of %d bytes", m.Seq, strconv.Quote(string(m.Subject)), len(m.Header), len(m.Data))
	case MessageDelete:
		seqs, err := ParseSeqs(r.Body)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "delete %d messages", len(seqs))
		if len(seqs) > 0 {
			fmt.Fprintf(b, ", the first is %d", seqs[0])
		}
	case Purge:
		p, err := ParsePurge(r.Body)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "purge subject %q below %d, keep %d", p.Subject, p.Upto, p.Keep)
	case Expire:
		first, err := ParseExpire(r.Body)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "expire messages below %d", first)
	case StreamState:
		s, err := ParseStreamState(r.Body)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "state: sequences %d to %d, %d gaps", s.First, s.Last, len(s.Gaps))
	default:
		return describeConsumer(b, r)
	}
	return nil
}

func describeConsumer(b *strings.Builder, r Record) error {
	switch r.Kind {
	case ConsumerConfig:
		var c ConsumerConfigBody
		if err := ParseJSON(r.Body, &c); err != nil {
			return err
		}
		fmt.Fprintf(b, "config of consumer %q", c.Name)
	case ConsumerDelete:
		fmt.Fprintf(b, "delete consumer %q", r.Body)
	case ConsumerProgress, ConsumerState:
		name, state, err := ParseConsumer(r.Body)
		if err != nil {
			return err
		}
		what := "progress"
		if r.Kind == ConsumerState {
			what = "state"
		}
		fmt.Fprintf(b, "%s of consumer %q, %d bytes", what, name, len(state))
	default:
		return fmt.Errorf("%w: unknown kind", ErrMalformed)
	}
	return nil
}
