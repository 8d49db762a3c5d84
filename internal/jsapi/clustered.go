package jsapi

import (
	"context"

	"github.com/sluicemq/sluice/internal/jserr"
)

// clustered are the requests that move the replicas and leaders of NATS's clusters about. They are refused as a single
// nats-server refuses them: here every stream has one owner, and its durability comes from the store.
var clustered = []route{
	{"$JS.API.STREAM.LEADER.STEPDOWN.*", schema + "stream_leader_stepdown_response", clusterRequired},
	{"$JS.API.STREAM.PEER.REMOVE.*", schema + "stream_remove_peer_response", clusterRequired},
	{"$JS.API.STREAM.PEER.EVACUATE.*", schema + "stream_evacuate_peer_response", clusterRequired},
	{"$JS.API.STREAM.CANCEL_MOVE.*", schema + "stream_cancel_move_response", clusterRequired},
	{"$JS.API.CONSUMER.LEADER.STEPDOWN.*.*", schema + "consumer_leader_stepdown_response", clusterRequired},
	{"$JS.API.CONSUMER.PEER.REMOVE.*.*", schema + "consumer_remove_peer_response", clusterRequired},
	{"$JS.API.CONSUMER.PEER.EVACUATE.*.*", schema + "consumer_evacuate_peer_response", clusterRequired},
}

func clusterRequired(context.Context, *request) (any, error) {
	return nil, jserr.New(jserr.ClusterRequired)
}
