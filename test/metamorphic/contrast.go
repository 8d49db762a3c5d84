package metamorphic

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// contrast shows two texts that differ: of JSON objects only the fields that do, of several lines only those.
func contrast(theirs, ours string) string {
	var a, b any
	if json.Unmarshal([]byte(theirs), &a) == nil && json.Unmarshal([]byte(ours), &b) == nil {
		return strings.TrimSuffix(contrastJSON("", a, b), "\n")
	}
	linesA, linesB := strings.Split(theirs, "\n"), strings.Split(ours, "\n")
	same := 0
	for same < min(len(linesA), len(linesB)) && linesA[same] == linesB[same] {
		same++
	}
	after := ""
	if same > 0 {
		after = fmt.Sprintf("after %d equal lines\n", same)
	}
	return fmt.Sprintf("%s--- nats-server:\n%s\n--- Sluice:\n%s", after, strings.Join(linesA[same:], "\n"), strings.Join(linesB[same:], "\n"))
}

func contrastJSON(path string, a, b any) string {
	textA, _ := json.Marshal(a) // what was read can be written
	textB, _ := json.Marshal(b)
	if string(textA) == string(textB) {
		return ""
	}
	objectA, isA := a.(map[string]any)
	objectB, isB := b.(map[string]any)
	if isA && isB {
		keys := maps.Clone(objectA)
		maps.Copy(keys, objectB)
		var out string
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			out += contrastJSON(path+"/"+key, objectA[key], objectB[key])
		}
		return out
	}
	listA, isA := a.([]any)
	listB, isB := b.([]any)
	if isA && isB && len(listA) == len(listB) {
		var out string
		for i := range listA {
			out += contrastJSON(fmt.Sprintf("%s/%d", path, i), listA[i], listB[i])
		}
		return out
	}
	return fmt.Sprintf("%s: nats-server %s, Sluice %s\n", path, textA, textB)
}
