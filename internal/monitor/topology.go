package monitor

import (
	"net/http"
	"time"
)

// The endpoints about connections between servers. There are none of nats-server's kinds, which they say in its form,
// since exporters ask for them.

func (h *Handler) routez(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, struct {
		ID        string     `json:"server_id"`
		Name      string     `json:"server_name"`
		Now       time.Time  `json:"now"`
		NumRoutes int        `json:"num_routes"`
		Routes    []struct{} `json:"routes"`
	}{ID: h.source.ServerID(), Name: h.source.Varz().Name, Now: h.now().UTC(), Routes: []struct{}{}})
}

func (h *Handler) leafz(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, struct {
		ID       string     `json:"server_id"`
		Now      time.Time  `json:"now"`
		NumLeafs int        `json:"leafnodes"`
		Leafs    []struct{} `json:"leafs"`
	}{ID: h.source.ServerID(), Now: h.now().UTC(), Leafs: []struct{}{}})
}

func (h *Handler) gatewayz(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, struct {
		ID       string    `json:"server_id"`
		Now      time.Time `json:"now"`
		Outbound struct{}  `json:"outbound_gateways"`
		Inbound  struct{}  `json:"inbound_gateways"`
	}{ID: h.source.ServerID(), Now: h.now().UTC()})
}
