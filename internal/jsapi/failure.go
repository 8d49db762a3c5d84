package jsapi

import "time"

// failures are the answers that carry more than the error where a request fails, by their type: what a success would
// say, empty.
var failures = map[string]func(head) any{
	schema + "stream_names_response": func(h head) any {
		return struct {
			head
			page
			Streams []string `json:"streams"`
		}{head: h}
	},
	schema + "stream_list_response": func(h head) any {
		return struct {
			head
			page
			Streams []string `json:"streams"`
		}{head: h, Streams: []string{}}
	},
	schema + "stream_info_response": func(h head) any {
		return struct {
			head
			page
		}{head: h}
	},
	schema + "stream_purge_response": func(h head) any {
		return struct {
			head
			Purged uint64 `json:"purged"`
		}{head: h}
	},
	schema + "stream_restore_response": func(h head) any {
		return struct {
			head
			DeliverSubject string `json:"deliver_subject"`
		}{head: h}
	},
	schema + "consumer_names_response": failedConsumers,
	schema + "consumer_list_response":  failedConsumers,
	schema + "consumer_pause_response": func(h head) any {
		return struct {
			head
			Paused     bool      `json:"paused"`
			PauseUntil time.Time `json:"pause_until"`
		}{head: h}
	},
	schema + "consumer_reset_response": func(h head) any {
		return struct {
			head
			ResetSeq uint64 `json:"reset_seq"`
		}{head: h}
	},
}

func failedConsumers(h head) any {
	return struct {
		head
		page
		Consumers []string `json:"consumers"`
	}{head: h, Consumers: []string{}}
}
