package monitor

import (
	"net/http"
	"time"
)

// The reports on connections between servers. There are none of nats-server's kinds, which they say in its form, since
// exporters ask for them.

// Routez reports no routes.
type Routez struct {
	ID        string     `json:"server_id"`
	Name      string     `json:"server_name"`
	Now       time.Time  `json:"now"`
	NumRoutes int        `json:"num_routes"`
	Routes    []struct{} `json:"routes"`
}

// Leafz reports no leaf nodes.
type Leafz struct {
	ID       string     `json:"server_id"`
	Now      time.Time  `json:"now"`
	NumLeafs int        `json:"leafnodes"`
	Leafs    []struct{} `json:"leafs"`
}

// Gatewayz reports no gateways.
type Gatewayz struct {
	ID       string    `json:"server_id"`
	Now      time.Time `json:"now"`
	Outbound struct{}  `json:"outbound_gateways"`
	Inbound  struct{}  `json:"inbound_gateways"`
}

// Routez reports on routes.
func (r *Reporter) Routez() *Routez {
	return &Routez{ID: r.source.ServerID(), Name: r.source.Varz().Name, Now: r.now().UTC(), Routes: []struct{}{}}
}

// Leafz reports on leaf nodes.
func (r *Reporter) Leafz() *Leafz {
	return &Leafz{ID: r.source.ServerID(), Now: r.now().UTC(), Leafs: []struct{}{}}
}

// Gatewayz reports on gateways.
func (r *Reporter) Gatewayz() *Gatewayz {
	return &Gatewayz{ID: r.source.ServerID(), Now: r.now().UTC()}
}

func (h *Handler) routez(w http.ResponseWriter, r *http.Request)   { h.answer(w, r, h.Routez()) }
func (h *Handler) leafz(w http.ResponseWriter, r *http.Request)    { h.answer(w, r, h.Leafz()) }
func (h *Handler) gatewayz(w http.ResponseWriter, r *http.Request) { h.answer(w, r, h.Gatewayz()) }
