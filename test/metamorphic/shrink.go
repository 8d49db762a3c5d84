package metamorphic

import "slices"

// shrink leaves operations out for as long as what is left still fails. It asks fails at most a few hundred times.
func shrink(ops []operation, fails func([]operation) bool) []operation {
	asked := 0
	for size := max(1, len(ops)/2); ; size /= 2 {
		for from := len(ops) - size; from > -size && asked < 300; from -= size {
			from := max(0, from)
			to := min(len(ops), from+size)
			if to-from == len(ops) {
				continue
			}
			asked++
			if fewer := slices.Delete(slices.Clone(ops), from, to); fails(fewer) {
				ops = fewer
			}
		}
		if size <= 1 {
			return ops
		}
	}
}
