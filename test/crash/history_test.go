package crash

import (
	"strings"
	"testing"
)

// TestCheckerFindsFaults takes a history that is right and damages it in every way that matters.
func TestCheckerFindsFaults(t *testing.T) {
	a, b, c, d := message{1, 1}, message{1, 2}, message{2, 1}, message{2, 2}
	type fixture struct {
		sent   []message
		events []event
		stream []stored
	}
	right := func() fixture {
		return fixture{
			sent: []message{a, b, c, d},
			events: []event{
				{acknowledged, 1, a}, {acknowledged, 2, c}, {delivered, 1, a}, {confirmed, 1, message{}},
				{delivered, 2, c}, {delivered, 2, c}, {confirmed, 2, message{}},
				{acknowledged, 3, b}, {delivered, 3, b}, {confirmed, 3, message{}},
			},
			stream: []stored{{1, a}, {2, c}, {3, b}},
		}
	}
	for _, tc := range []struct {
		name   string
		damage func(f *fixture)
		want   string // "" is no fault
	}{
		{"right", func(f *fixture) {}, ""},
		{"stored without acknowledgement", func(f *fixture) {
			f.stream = append(f.stream, stored{4, d})
			f.events = append(f.events, event{delivered, 4, d}, event{confirmed, 4, message{}})
		}, ""},
		{"the last message lost", func(f *fixture) { f.stream = f.stream[:2] }, "1.2 was acknowledged with sequence 3 and is lost"},
		{"a message lost, another in its place", func(f *fixture) { f.stream[2].message = d }, "1.2 was acknowledged with sequence 3, which holds 2.2"},
		{"a gap", func(f *fixture) { f.stream = []stored{{1, a}, {3, b}} }, "sequence 3 stands at place 2"},
		{"stored twice", func(f *fixture) { f.stream = append(f.stream, stored{4, b}) }, "1.2 is stored twice: at 3 and 4"},
		{"never sent", func(f *fixture) { f.stream = append(f.stream, stored{4, message{7, 7}}) }, "nobody sent"},
		{"out of order", func(f *fixture) {
			f.events = f.events[:0]
			f.stream = []stored{{1, b}, {2, a}}
		}, "1.1 at 2 comes after 1.2 at 1"},
		{"a sequence acknowledged for two messages", func(f *fixture) { f.events = append(f.events, event{acknowledged, 3, d}) }, "2.2 was acknowledged with sequence 3, which holds 1.2"},
		{"delivered after confirmation", func(f *fixture) { f.events = append(f.events, event{delivered, 1, a}) }, "delivered again"},
		{"delivered what is not stored", func(f *fixture) { f.events = append(f.events, event{delivered, 9, d}) }, "2.2 was delivered as sequence 9"},
		{"delivered and not confirmed", func(f *fixture) { f.events = f.events[:9] }, ""},
		{"not delivered", func(f *fixture) { f.events = f.events[:8] }, "1.2 at 3 was never delivered"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := right()
			tc.damage(&f)
			h := newHistory()
			for _, m := range f.sent {
				h.send(m)
			}
			for _, e := range f.events {
				h.add(e.kind, e.sequence, e.message)
			}
			err := h.check(f.stream)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("fault in a right history: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
