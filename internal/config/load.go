package config

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/nats-io/nats-server/v2/conf"
)

// maxFileBytes bounds a configuration file: what is larger was meant as something else.
const maxFileBytes = 16 << 20

// Load reads a file in NATS's configuration syntax: the same settings, aliases, value forms and meanings as for
// nats-server 2.15.3, and Sluice's own setting "store".
//
// The result has no defaults yet, so that a caller can lay flags over it before SetDefaults; with its defaults it is
// valid. The error joins every fault of the file; see Faults.
func Load(path string) (Options, error) {
	o := Options{ConfigFile: path}
	if err := checkIncludes(path); err != nil {
		return Options{}, err
	}
	m, digest, err := parse(path)
	if err != nil {
		return Options{}, err
	}
	o.ConfigDigest = digest
	d := &decoder{places: map[string]value{}}
	root := value{v: m, at: place{file: path, line: 1}}
	d.block(root, d.serverSettings(&o))
	if len(m) == 0 {
		d.warnings = append(d.warnings, path+": the file has no settings")
	}
	d.validate(o)
	if len(d.faults) > 0 {
		return Options{}, joinFaults(d.faults)
	}
	if o.Store.URL != "" && o.JetStream.StoreDir != "" {
		d.warn(d.places["store_dir"], "has no effect: store says where")
	}
	o.ConfigWarnings = d.warnings
	return o, nil
}

// validate adds the faults that only the whole configuration shows, with the places of the settings that they name.
func (d *decoder) validate(o Options) {
	if len(d.faults) > 0 {
		return // they would mostly follow from the faults that are known
	}
	complete := o.Clone()
	complete.SetDefaults()
	for _, f := range complete.faults() {
		if v, ok := d.placeOf(f.Setting); ok {
			f.File, f.Line, f.column = v.at.file, v.at.line, v.at.column
		} else {
			f.File = o.ConfigFile
		}
		d.faults = append(d.faults, f)
	}
}

// placeOf finds the setting or the closest block around it that stands in the file.
func (d *decoder) placeOf(name string) (value, bool) {
	for name != "" {
		if v, ok := d.places[name]; ok {
			return v, true
		}
		name = name[:max(0, strings.LastIndexAny(name, ".["))]
	}
	return value{}, false
}

// parse runs the parser, whose errors already name the line, and turns its panics on malformed input into errors.
func parse(path string) (m map[string]any, digest string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &Fault{File: path, Reason: "the file is malformed"}
		}
	}()
	m, digest, err = conf.ParseFileWithChecksDigest(path)
	if err != nil {
		return nil, "", &Fault{File: path, Reason: err.Error()}
	}
	return m, digest, nil
}

// readFile reads a regular file of bounded size. Others are refused, since the parser reads the path once more.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &Fault{File: path, Reason: "not a regular file"}
	case info.Size() > maxFileBytes:
		return nil, &Fault{File: path, Reason: fmt.Sprintf("more than %d bytes", maxFileBytes)}
	}
	return io.ReadAll(io.LimitReader(f, maxFileBytes))
}
