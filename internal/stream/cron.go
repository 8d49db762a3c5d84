package stream

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // time zones do not depend on the machine

	"github.com/robfig/cron/v3"
)

var (
	errPattern = errors.New("stream: schedule pattern is invalid")
	errZone    = errors.New("stream: time zone is invalid")
)

// named are the schedules that have a name.
var named = map[string]string{
	"@yearly": "0 0 0 1 1 *", "@annually": "0 0 0 1 1 *", "@monthly": "0 0 0 1 * *", "@weekly": "0 0 0 * * 0",
	"@daily": "0 0 0 * * *", "@midnight": "0 0 0 * * *", "@hourly": "0 0 * * * *",
}

// cronFields reads six fields, the first is that of seconds.
var cronFields = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// nextFiring gives the first time after another (ns UTC) at which a schedule (ADR-51) fires, but none that now is past
// already when it repeats: what was missed fires once. zone nil: no time zone is given. A time of zero: there is no
// schedule.
func nextFiring(pattern, zone []byte, after, now int64) (at time.Time, repeats bool, err error) {
	var place *time.Location
	if zone != nil {
		if place, err = time.LoadLocation(string(zone)); err != nil || len(zone) == 0 {
			return time.Time{}, false, fmt.Errorf("%w: %q", errZone, zone)
		}
	}
	text := string(pattern)
	switch {
	case text == "":
		return time.Time{}, false, nil
	case strings.HasPrefix(text, "@at "):
		at, err = time.Parse(time.RFC3339, text[len("@at "):])
		if err != nil || place != nil {
			return time.Time{}, false, fmt.Errorf("%w: %q", errPattern, pattern)
		}
		return at, false, nil
	case strings.HasPrefix(text, "@every "):
		every, err := time.ParseDuration(text[len("@every "):])
		if err != nil || every < time.Second || place != nil {
			return time.Time{}, false, fmt.Errorf("%w: %q", errPattern, pattern)
		}
		at = time.Unix(0, after).UTC().Round(time.Second).Add(every)
		if at.UnixNano() < now {
			at = time.Unix(0, now).UTC().Round(time.Second).Add(every)
		}
		return at, true, nil
	}
	at, err = nextCron(text, place, after, now)
	return at, true, err
}

func nextCron(text string, place *time.Location, after, now int64) (at time.Time, err error) {
	if fields, ok := named[text]; ok {
		text = fields
	}
	if place == nil {
		place = time.UTC
	}
	// The parser would take a time zone in front.
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return at, fmt.Errorf("%w: %q", errPattern, text)
	}
	// A field that names nothing never comes, and the search for it would be long.
	for _, field := range strings.Fields(text) {
		if strings.Trim(field, ",") == "" {
			return at, fmt.Errorf("%w: %q never fires", errPattern, text)
		}
	}
	plan, err := cronFields.Parse(text)
	if err != nil {
		return at, fmt.Errorf("%w: %w", errPattern, err)
	}
	at = plan.Next(time.Unix(0, after).In(place))
	if !at.IsZero() && at.UnixNano() < now {
		at = plan.Next(time.Unix(0, now).In(place).Round(time.Second))
	}
	if at.IsZero() { // not within five years
		return at, fmt.Errorf("%w: %q never fires", errPattern, text)
	}
	return at, nil
}
