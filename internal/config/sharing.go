package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sluicemq/sluice/internal/account"
)

// noTrace is why allow_trace is refused.
const noTrace = "this version does not trace messages to a subject"

// entries reads a list of blocks.
func (d *decoder) entries(v value, what string) []value {
	if _, ok := v.v.([]any); !ok {
		d.fault(v, "expected a list of %s, got %s", what, describe(v.v))
		return nil
	}
	list := v.list()
	for _, item := range list {
		d.places[item.path] = item
	}
	return list
}

func (d *decoder) exports(v value) []account.Export {
	var list []account.Export
	for _, item := range d.entries(v, "exports") {
		list = append(list, d.export(item))
	}
	return list
}

func (d *decoder) export(v value) account.Export {
	var (
		e       account.Export
		stream  string
		service string
	)
	s := settings{}
	s.add(d.text(&stream), "stream")
	s.add(d.text(&service), "service")
	s.add(func(v value) { e.Accounts = d.importers(v) }, "accounts")
	s.add(number(d, &e.TokenPosition, 0, math.MaxInt32), "account_token_position")
	s.add(func(v value) { e.Responses = d.responseType(v) }, "response", "response_type")
	s.add(d.duration(&e.Threshold), "response_threshold", "threshold", "response_max_time", "response_time")
	s.add(d.refuseTrue(noTrace), "allow_trace")
	s.refuse(d, "this version does not sample latencies", "latency")
	d.block(v, s)
	e.Subject, e.Service = stream+service, service != ""
	switch {
	case stream != "" && service != "":
		d.fault(v, "an export is a stream or a service, not both")
	case e.Subject == "":
		d.fault(v, "an export needs a stream or a service")
	case !e.Service:
		for _, name := range []string{"response", "response_threshold"} {
			if at, ok := d.places[v.path+"."+name]; ok {
				d.fault(at, "only a service has responses")
			}
		}
	case e.Threshold < 0:
		d.fault(d.places[v.path+".response_threshold"], "%v is negative", e.Threshold)
	}
	return e
}

// importers reads the accounts that may import.
func (d *decoder) importers(v value) (names []string) {
	d.texts(&names)(v)
	if len(names) == 0 {
		d.warn(v, "the list is empty, which lets every account import it")
	}
	return names
}

func (d *decoder) responseType(v value) account.Responses {
	text, ok := d.asText(v)
	switch strings.ToLower(text) {
	case "single", "singleton":
		return account.Single
	case "stream":
		return account.Streamed
	case "chunk", "chunked":
		return account.Chunked
	}
	if ok {
		d.fault(v, `expected "singleton", "stream" or "chunked", got %q`, text)
	}
	return account.Single
}

// refuseTrue is for what is off anyhow.
func (d *decoder) refuseTrue(reason string) setter {
	return func(v value) {
		if on, _ := d.asBool(v); on {
			d.fault(v, "not supported: %s", reason)
		}
	}
}

func (d *decoder) imports(v value) []account.Import {
	var list []account.Import
	for _, item := range d.entries(v, "imports") {
		list = append(list, d.imported(item))
	}
	return list
}

func (d *decoder) imported(v value) account.Import {
	var (
		i               account.Import
		stream, service bool
	)
	from := func(v value) {
		s := settings{}
		s.add(d.text(&i.Account), "account")
		s.add(d.text(&i.Subject), "subject")
		d.block(v, s)
		if i.Account == "" || i.Subject == "" {
			d.fault(v, "an import needs an account and a subject")
		}
	}
	s := settings{}
	s.add(func(v value) { stream = true; from(v) }, "stream")
	s.add(func(v value) { service = true; from(v) }, "service")
	s.add(d.text(&i.To), "to")
	s.add(d.text(&i.Prefix), "prefix")
	s.add(d.flag(&i.Share), "share")
	s.add(d.refuseTrue(noTrace), "allow_trace")
	d.block(v, s)
	i.Service = service
	switch {
	case stream && service:
		d.fault(v, "an import is a stream or a service, not both")
	case !stream && !service:
		d.fault(v, "an import needs a stream or a service")
	case stream && i.To != "" && i.Prefix != "":
		d.fault(d.places[v.path+".to"], "a stream import cannot have both a prefix and a to")
	}
	if at, ok := d.places[v.path+".prefix"]; ok && service {
		d.warn(at, "has no effect: only streams have a prefix")
		i.Prefix = ""
	}
	if at, ok := d.places[v.path+".share"]; ok && stream {
		d.warn(at, "has no effect: only services are told who asks")
		i.Share = false
	}
	return i
}

// mappings reads a block: the subjects that are mapped, and where to each.
func (d *decoder) mappings(v value) []account.Mapping {
	members, _ := d.members(v)
	var list []account.Mapping
	for _, m := range members {
		if m.variable {
			continue
		}
		d.places[fmt.Sprintf("%s[%d]", v.path, len(list))] = m.value
		list = append(list, account.Mapping{Source: m.key, To: d.destinations(m.value)})
	}
	return list
}

// destinations reads a subject, a block with a destination and its weight, or a list of such blocks.
func (d *decoder) destinations(v value) []account.MappedTo {
	if s, ok := v.v.(string); ok {
		return []account.MappedTo{{Subject: s, Weight: 100}}
	}
	var list []account.MappedTo
	for _, item := range v.list() {
		d.places[item.path] = item
		list = append(list, d.destination(item))
	}
	return list
}

func (d *decoder) destination(v value) account.MappedTo {
	var to account.MappedTo
	weighed := false
	s := settings{}
	s.add(d.text(&to.Subject), "destination", "dest")
	s.add(func(v value) { weighed = true; to.Weight = d.weight(v) }, "weight")
	s.refuse(d, noCluster, "cluster")
	d.block(v, s)
	if !weighed {
		d.fault(v, "a mapping's destination needs a weight")
	}
	return to
}

// weight reads a percentage, as a number or as a text with or without a percent sign.
func (d *decoder) weight(v value) (weight int) {
	if s, ok := v.v.(string); ok {
		n, err := strconv.Atoi(strings.TrimSuffix(s, "%"))
		if err != nil || n < 0 || n > 100 {
			d.fault(v, "%q is no weight from 0%% to 100%%", s)
			return 0
		}
		return n
	}
	number(d, &weight, 0, 100)(v)
	return weight
}
