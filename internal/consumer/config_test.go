package consumer

import (
	"encoding/json"

	"github.com/nats-io/jsm.go/api"
)

func parseConfig(raw string) (cfg api.ConsumerConfig, err error) {
	err = json.Unmarshal([]byte(raw), &cfg)
	return cfg, err
}
