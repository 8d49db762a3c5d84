package metamorphic

import (
	"fmt"
	"maps"
)

// createStream asks for a stream; the configuration is mostly one that is allowed.
func (g *generator) createStream(name string) operation {
	cfg := g.streamConfig(name)
	if g.chance(2) { // not in updates, which may have another fault that nats-server sees first
		cfg["subjects"] = []string{choose(g, "s0.>", "s1.>", "s2.>"), own(name) + ".>"}
	}
	g.streams[name] = cfg
	return api("STREAM.CREATE."+name, cfg.json())
}

func (g *generator) streamConfig(name string) fields {
	s := own(name)
	cfg := fields{
		"name": name, "storage": "file", "num_replicas": 1, "discard": "old", "duplicate_window": int64(3600e9),
		"retention": choose(g, "limits", "limits", "limits", "interest", "workqueue"),
		"subjects":  choose(g, []string{s + ".>"}, []string{s + ".>"}, []string{s + ".*", s + ".*.*"}, []string{s + ".a", s + ".b", s + ".*.x"}),
	}
	limits := []func(){
		func() { cfg["max_msgs"] = 1 + g.rand.IntN(8) },
		func() { cfg["max_bytes"] = 100 + g.rand.IntN(1000) },
		func() { cfg["max_msgs_per_subject"] = 1 + g.rand.IntN(3) },
		func() { cfg["max_msg_size"] = 50 + g.rand.IntN(200) },
		func() { cfg["max_consumers"] = 1 + g.rand.IntN(3) },
	}
	for _, limit := range limits {
		if g.chance(25) && g.style != keeping {
			limit()
		}
	}
	for _, flag := range []string{"allow_rollup_hdrs", "allow_direct", "allow_atomic"} {
		if g.chance(60) {
			cfg[flag] = true
		}
	}
	if g.chance(10) {
		cfg["deny_delete"] = true
	}
	if g.chance(7) {
		cfg["deny_purge"] = true
		if g.chance(90) {
			delete(cfg, "allow_rollup_hdrs")
		}
	}
	if g.chance(30) {
		cfg["discard"] = "new"
		if cfg["max_msgs_per_subject"] != nil && g.chance(60) {
			cfg["discard_new_per_subject"] = true
		}
	}
	if g.chance(10) {
		cfg["first_seq"] = g.rand.IntN(50)
	}
	if g.chance(10) {
		cfg["allow_msg_counter"] = true
		if g.chance(95) {
			cfg["retention"], cfg["discard"] = "limits", "old"
			delete(cfg, "discard_new_per_subject")
		}
	}
	if g.chance(10) {
		cfg["subject_transform"] = fields{"src": choose(g, s+".a", s+".b.*", s+".>"), "dest": choose(g, s+".c", s+".a.{{wildcard(1)}}", s+".t.>")}
	}
	if g.chance(10) {
		cfg["republish"] = fields{"src": choose(g, ">", s+".>", s+".a"), "dest": choose(g, "again."+name+".>", "again."+name), "headers_only": g.chance(30)}
	}
	if g.chance(8) {
		cfg["consumer_limits"] = fields{"max_ack_pending": 1 + g.rand.IntN(20)}
	}
	if g.chance(10) {
		cfg["storage"] = "memory"
	}
	if g.chance(20) {
		cfg["metadata"] = map[string]string{"owner": choose(g, "me", "you")}
	}
	if g.chance(20) { // a key-value bucket
		if g.style != keeping {
			cfg["max_msgs_per_subject"] = 1 + g.rand.IntN(3)
		}
		for field, value := range (fields{
			"retention": "limits", "discard": "new", "allow_rollup_hdrs": true, "deny_delete": true, "allow_direct": true,
			"subjects": []string{s + ".>"},
		}) {
			cfg[field] = value
		}
		for _, field := range []string{"deny_purge", "discard_new_per_subject", "allow_msg_counter", "max_msgs", "subject_transform"} {
			delete(cfg, field)
		}
	}
	return cfg
}

// updateStream changes some fields of what the stream was last asked to be.
func (g *generator) updateStream(name string) operation {
	cfg := g.streams[name]
	if cfg == nil {
		return g.createStream(name)
	}
	other := g.streamConfig(name)
	changed := cfg.with(nil)
	for range 1 + g.rand.IntN(3) {
		if g.style == keeping {
			break
		}
		field := choose(g, "max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size", "max_consumers", "subjects", "discard", "allow_direct", "allow_atomic",
			"allow_rollup_hdrs", "deny_delete", "retention", "republish", "subject_transform", "metadata", "discard_new_per_subject", "consumer_limits", "first_seq", "deny_purge")
		if (field == "retention" || field == "first_seq" || field == "deny_delete" || field == "deny_purge") && g.chance(70) {
			continue
		}
		if value, ok := other[field]; ok {
			changed[field] = value
		} else {
			delete(changed, field)
		}
	}
	g.streams[name] = changed
	return api("STREAM.UPDATE."+name, changed.json())
}

// createConsumer asks for a consumer, or for a change of one.
func (g *generator) createConsumer(stream string) operation {
	name := choose(g, consumerNames...)
	cfg := g.consumerConfig(stream, name)
	ask := fields{"stream_name": stream, "config": cfg}
	switch {
	case g.style >= preserving:
		ask["action"] = "create"
	case g.settled[stream+"/"+name] && g.chance(60):
		ask["action"] = choose(g, "update", "")
	case g.chance(30):
		ask["action"] = choose(g, "create", "create", "update")
	}
	g.settled[stream+"/"+name] = true
	subject := fmt.Sprintf("CONSUMER.CREATE.%s.%s", stream, name)
	if filter, ok := cfg["filter_subject"].(string); ok && g.chance(50) {
		subject += "." + filter
	} else if cfg["durable_name"] != nil && g.chance(20) {
		subject = fmt.Sprintf("CONSUMER.DURABLE.CREATE.%s.%s", stream, name)
	}
	return api(subject, ask.json())
}

func (g *generator) consumerConfig(stream, name string) fields {
	key := stream + "/" + name
	cfg := fields{"name": name, "durable_name": name, "replay_policy": "instant", "ack_wait": int64(3600e9)}
	cfg["ack_policy"] = choose(g, "explicit", "explicit", "explicit", "none")
	if g.style == keeping {
		cfg["ack_policy"] = choose(g, "explicit", "all")
	}
	cfg["deliver_policy"] = choose(g, "all", "all", "all", "last", "new", "by_start_sequence")
	if g.style == keeping && g.chance(30) {
		cfg["deliver_policy"] = "last_per_subject"
	}
	if g.streams[stream]["retention"] == "workqueue" && g.chance(90) {
		cfg["ack_policy"], cfg["deliver_policy"] = "explicit", "all"
	}
	if cfg["deliver_policy"] == "by_start_sequence" {
		cfg["opt_start_seq"] = 1 + g.rand.IntN(20)
	}
	if name == "C2" { // always: nats-server's answers to a change of it depend on what was before
		delete(cfg, "durable_name")
		cfg["inactive_threshold"] = int64(3600e9)
	}
	// The filters stay: nats-server does not tell a consumer of messages any more when an update takes its filter away, and
	// begins at one place or another when it gets wider.
	if g.filtersOf[key] == nil {
		g.filtersOf[key] = g.someFilters(stream, cfg["deliver_policy"] == "last_per_subject")
	}
	maps.Copy(cfg, g.filtersOf[key])
	if len(g.filtersOf[key]) == 0 && cfg["deliver_policy"] == "last" {
		// Without a filter, nats-server begins behind the last message when a newer one was deleted; with one, it does not.
		cfg["deliver_policy"] = "all"
	}
	if _, ok := g.pushed[key]; !ok {
		g.pushed[key] = g.chance(25)
	}
	// In a work queue, which of two errors a change gets depends on the order of nats-server's checks.
	if g.pushed[key] != (g.chance(4) && g.streams[stream]["retention"] != "workqueue") {
		cfg["deliver_subject"] = g.inbox(stream, name)
	} else if g.chance(15) {
		cfg[choose(g, "max_batch", "max_waiting")] = 1 + g.rand.IntN(4)
	}
	if cfg["ack_policy"] != "none" {
		delete(cfg, "ack_wait")
		cfg["ack_wait"] = int64(3600e9)
		if g.chance(40) {
			cfg["max_deliver"] = 1 + g.rand.IntN(3)
		}
		if cfg["max_deliver"] == nil && g.style != removing && g.chance(40) { // what is given up may still take its place in nats-server
			cfg["max_ack_pending"] = 1 + g.rand.IntN(5)
		}
	}
	if g.chance(15) {
		cfg["headers_only"] = true
	}
	if g.chance(8) {
		cfg["mem_storage"] = true
	}
	if g.chance(15) {
		cfg["description"] = choose(g, "this", "that")
	}
	return cfg
}

// filters are several for one consumer. None overlaps with another in part only: nats-server takes such filters and counts
// what passes two of them twice.
func (g *generator) filters(stream string) (filters []string) {
	for range 1 + g.rand.IntN(3) {
		filters = append(filters, own(stream)+choose(g, ".a", ".b", ".c", ".a.*", ".b.x", ".b.x.z", ".b.>", ".*"))
	}
	return filters
}

// someFilters are a consumer's filter, its filters, or nothing, which last per subject does not allow.
func (g *generator) someFilters(stream string, needed bool) fields {
	switch {
	case g.chance(35):
		return fields{"filter_subject": g.filter(stream)}
	case g.chance(35):
		return fields{"filter_subjects": g.filters(stream)}
	case needed:
		return fields{"filter_subject": own(stream) + ".>"}
	}
	return fields{}
}
