package segment

import (
	"bytes"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

var compact thrift.CompactProtocol

// thriftWriter encodes structures of Parquet into a buffer that is reused. What it writes to cannot fail and the
// structures are sound by their making, so an error here is a fault of ours; the first one stays.
type thriftWriter struct {
	buffer  bytes.Buffer
	w       thrift.Writer
	encoder *thrift.Encoder
	last    int16 // the newest field of the structure that is written by hand
	err     error
}

func newThriftWriter() *thriftWriter {
	t := &thriftWriter{}
	t.w = compact.NewWriter(&t.buffer)
	t.encoder = thrift.NewEncoder(t.w)
	return t
}

func (t *thriftWriter) reset() { t.buffer.Reset() }

func (t *thriftWriter) keep(err error) {
	if t.err == nil {
		t.err = err
	}
}

// value appends a structure, which is given by its pointer.
func (t *thriftWriter) value(v any) { t.keep(t.encoder.Encode(v)) }

// field begins a field of a structure that is written by hand, in the order of their numbers.
func (t *thriftWriter) field(id int16, kind thrift.Type) {
	t.keep(t.w.WriteField(thrift.Field{ID: id - t.last, Delta: true, Type: kind}))
	t.last = id
}

// list begins a field that is a list of n structures.
func (t *thriftWriter) list(id int16, n int) {
	t.field(id, thrift.LIST)
	t.keep(t.w.WriteList(thrift.List{Size: int32(n), Type: thrift.STRUCT}))
}

// raw appends structures that are encoded already.
func (t *thriftWriter) raw(b []byte) { t.buffer.Write(b) }

// stop ends the structure.
func (t *thriftWriter) stop() {
	t.keep(t.w.WriteField(thrift.Field{Type: thrift.STOP}))
	t.last = 0
}
