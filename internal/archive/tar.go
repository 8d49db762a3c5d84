package archive

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/minio/highwayhash"
	"github.com/nats-io/jsm.go/api"
)

// maxFile bounds a file of a tar in bytes. Blocks of messages are of 8 MiB, or of one larger message.
const maxFile = 256 << 20

// files reads the form of nats-server before 2.15: the files of a stream's directory. They come in the order meta.inf,
// meta.sum, msgs/<n>.blk, msgs/index.db, and per consumer obs/<name>/meta.inf, meta.sum, o.dat.
type files struct {
	in  *tar.Reader
	to  Target
	buf []byte

	stream string // its name; "": meta.inf has not come yet
	sum    string // what the next meta.sum has to say
	last   uint64 // newest sequence of a message
	known  uint64 // newest sequence of a message or a tombstone
	stated bool   // the target knows the state
	blocks blockSum
	// consumer is the one whose files are being read.
	consumer Consumer
	dir      string
}

// blockSum is the newest block and its last checksum.
type blockSum struct {
	index uint64
	sum   [recordSum]byte
}

func readTar(in io.Reader, to Target) error {
	f := files{in: tar.NewReader(in), to: to}
	for {
		h, err := f.in.Next()
		switch {
		case err == io.EOF:
			return f.end()
		case errors.Is(err, tar.ErrHeader):
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		case err != nil:
			return truncated(err)
		case h.Typeflag != tar.TypeReg:
			return fmt.Errorf("%w: unexpected content: %q", ErrCorrupt, h.Name)
		case h.Size > maxFile || len(h.Name) > maxName:
			return fmt.Errorf("%w: file %q of %d bytes", ErrTooLarge, h.Name, h.Size)
		}
		body, err := f.read(int(h.Size))
		if err == nil {
			err = f.file(path.Clean(h.Name), body)
		}
		if err != nil {
			return err
		}
	}
}

// read reads n bytes, which are allocated as they come.
func (f *files) read(n int) ([]byte, error) {
	f.buf = f.buf[:0]
	for len(f.buf) < n {
		at := len(f.buf)
		f.buf = append(f.buf, make([]byte, min(n-at, takeStep))...)
		if _, err := io.ReadFull(f.in, f.buf[at:]); err != nil {
			return nil, truncated(err)
		}
	}
	return f.buf, nil
}

// file takes one file. Files of other names are from servers that know more than we do: nothing else is in an archive,
// so they are refused rather than lost.
func (f *files) file(name string, body []byte) error {
	if name == "meta.inf" {
		return f.meta(body)
	}
	if f.stream == "" {
		return fmt.Errorf("%w: %q comes before meta.inf", ErrCorrupt, name)
	}
	dir, base := path.Split(name)
	switch {
	case name == "meta.sum":
		return f.checkSum(name, body)
	case dir == "msgs/" && base == "index.db":
		return f.index(body)
	case dir == "msgs/" && strings.HasSuffix(base, ".blk"):
		index, err := strconv.ParseUint(strings.TrimSuffix(base, ".blk"), 10, 32)
		if err != nil {
			return fmt.Errorf("%w: block %q", ErrCorrupt, name)
		}
		return f.block(index, body)
	case strings.HasPrefix(dir, "obs/") && strings.Count(dir, "/") == 2:
		return f.consumerFile(strings.TrimSuffix(strings.TrimPrefix(dir, "obs/"), "/"), base, body)
	case name == "errors.txt":
		return fmt.Errorf("%w: the backup failed: %s", ErrCorrupt, body)
	}
	return fmt.Errorf("%w: unexpected content: %q", ErrCorrupt, name)
}

// metaFile is the JSON of meta.inf.
type metaFile struct {
	Created time.Time
	api.StreamConfig
}

func (f *files) meta(body []byte) error {
	var m metaFile
	if err := json.Unmarshal(body, &m); err != nil {
		return fmt.Errorf("%w: meta.inf: %w", ErrCorrupt, err)
	}
	if m.Name == "" || f.stream != "" {
		return fmt.Errorf("%w: meta.inf", ErrCorrupt)
	}
	f.stream = m.Name
	f.sum = sumOf(m.Name, body)
	return f.to.Created(m.Created)
}

// sumOf is the checksum of a file under a key that follows from a name, as text.
func sumOf(name string, body []byte) string {
	key := sha256.Sum256([]byte(name))
	h, err := highwayhash.New64(key[:])
	if err != nil {
		panic(err) // the key has the right length
	}
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

func (f *files) checkSum(name string, body []byte) error {
	if strings.TrimSpace(string(body)) != f.sum {
		return fmt.Errorf("%w: %s does not hold", ErrCorrupt, name)
	}
	return nil
}

// consumerMeta is the JSON of a consumer's meta.inf.
type consumerMeta struct {
	Created time.Time
	Name    string
	api.ConsumerConfig
}

func (f *files) consumerFile(name, base string, body []byte) error {
	if err := f.state(); err != nil {
		return err
	}
	if f.dir != "" && f.dir != name {
		return fmt.Errorf("%w: consumer %q has no state", ErrCorrupt, f.dir)
	}
	switch {
	case base == "meta.inf" && f.dir == "":
		var m consumerMeta
		if err := json.Unmarshal(body, &m); err != nil {
			return fmt.Errorf("%w: consumer %q: %w", ErrCorrupt, name, err)
		}
		f.dir, f.sum = name, sumOf(f.stream+"/"+name, body)
		f.consumer = Consumer{Name: name, Created: m.Created, Config: m.ConsumerConfig}
		return nil
	case f.dir == "":
		return fmt.Errorf("%w: consumer %q has no configuration", ErrCorrupt, name)
	case base == "meta.sum":
		return f.checkSum(path.Join("obs", name, base), body)
	case base == "o.dat":
		state, err := parseConsumerState(body)
		if err != nil {
			return fmt.Errorf("consumer %q: %w", name, err)
		}
		f.dir, f.consumer.State = "", state
		return f.to.Consumer(f.consumer)
	}
	return fmt.Errorf("%w: unexpected content: %q", ErrCorrupt, path.Join("obs", name, base))
}

// state tells the target the bounds of the stream if no index has.
func (f *files) state() error {
	if f.stated {
		return nil
	}
	f.stated = true
	return f.to.State(api.StreamState{LastSeq: f.known})
}

func (f *files) end() error {
	switch {
	case f.stream == "":
		return ErrTruncated
	case f.dir != "":
		// nats-server writes a consumer's state last, if it has one.
		return fmt.Errorf("%w: consumer %q has no state", ErrTruncated, f.dir)
	}
	return f.state()
}
