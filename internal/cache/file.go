package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/store"
)

// A file is a header and the part's bytes:
//
//	0  magic       "SLC1"
//	4  checksum    CRC32C, little-endian, of key, offset and length (64 bits each, little-endian), bytes
//	8  bytes
//
// Its path below the folder is the object's key, as folders, and "@<offset>-<length>" in hex. Segments of keys never
// begin with '@', so there can be no clash; nor with "@tmp", where files begin, and "@lock".
const (
	headerBytes = 8
	fileMagic   = "SLC1"
	tempFolder  = "@tmp"
	lockName    = "@lock"
)

// mkdirTries bounds how often a folder is made again that someone removes, empty, before a file is in it.
const mkdirTries = 5

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(key string, p Part, data []byte) uint32 {
	head := binary.LittleEndian.AppendUint64([]byte(key), uint64(p.Offset))
	head = binary.LittleEndian.AppendUint64(head, uint64(p.Length))
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, data)
}

func (d *disk) path(key string, p Part) string {
	return filepath.Join(d.folder, filepath.FromSlash(key), fileName(p))
}

func fileName(p Part) string { return fmt.Sprintf("@%x-%x", p.Offset, p.Length) }

// parseName is the inverse of fileName.
func parseName(name string) (p Part, ok bool) {
	offset, length, ok := strings.Cut(strings.TrimPrefix(name, "@"), "-")
	if !ok {
		return p, false
	}
	var err, err2 error
	p.Offset, err = strconv.ParseInt(offset, 16, 64)
	p.Length, err2 = strconv.ParseInt(length, 16, 64)
	return p, err == nil && err2 == nil && p.valid() && fileName(p) == name
}

// readFile reads a part and checks it.
func readFile(path, key string, p Part) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != headerBytes+p.Length {
		return nil, fmt.Errorf("the file has %d bytes, want %d", info.Size(), headerBytes+p.Length)
	}
	buf := make([]byte, headerBytes+p.Length)
	if _, err := io.ReadFull(f, buf); err != nil {
		return nil, err
	}
	data := buf[headerBytes:]
	if string(buf[:4]) != fileMagic || binary.LittleEndian.Uint32(buf[4:]) != checksum(key, p, data) {
		return nil, errors.New("the checksum does not match")
	}
	return data, nil
}

// writeFile writes a part, so that its name only ever stands for a whole file, power loss aside.
func (d *disk) writeFile(w *write, now time.Time) error {
	temp := filepath.Join(d.folder, tempFolder, "part")
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	head := binary.LittleEndian.AppendUint32([]byte(fileMagic), checksum(w.key, w.part, w.data))
	_, err = f.Write(head)
	if err == nil {
		_, err = f.Write(w.data)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		_ = os.Chtimes(temp, now, now) // by the same clock as later ones
		err = d.rename(temp, d.path(w.key, w.part))
	}
	if err != nil {
		_ = os.Remove(temp) // else the next one takes its place
	}
	return err
}

func (d *disk) rename(temp, path string) (err error) {
	for range mkdirTries {
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			continue
		}
		if err = os.Rename(temp, path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// remove removes files that the books no longer have, and the folders that this leaves empty.
func (d *disk) remove(files []*file) {
	for _, f := range files {
		path := d.path(f.key, f.part)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.log.Warn("A file of the cache cannot be removed.", "path", path, "error", err)
		}
		for range strings.Count(f.key, "/") + 1 {
			path = filepath.Dir(path)
			if os.Remove(path) != nil {
				break // not empty
			}
		}
	}
}

// list finds the parts in the folder, the one that was used longest ago first. What a crash left half done, or cut
// short, is removed; what is not of a cache is left alone.
func (d *disk) list() (found []*file, err error) {
	temp := filepath.Join(d.folder, tempFolder)
	if err := errors.Join(os.RemoveAll(temp), os.Mkdir(temp, 0o700)); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(d.folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if path == d.folder {
				return err
			}
			d.log.Warn("A folder of the cache cannot be read.", "path", path, "error", err)
			return fs.SkipDir
		}
		p, ok := parseName(entry.Name())
		if entry.IsDir() || !ok {
			return nil
		}
		folder, err := filepath.Rel(d.folder, filepath.Dir(path))
		key := filepath.ToSlash(folder)
		if err != nil || store.CheckKey(key) != nil {
			return nil
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			return nil // gone meanwhile, or nothing of ours
		}
		f := &file{key: key, part: p, touched: info.ModTime()}
		if info.Size() != headerBytes+p.Length {
			d.remove([]*file{f})
			return nil
		}
		found = append(found, f)
		return nil
	})
	slices.SortFunc(found, func(a, b *file) int { return a.touched.Compare(b.touched) })
	return found, err
}
