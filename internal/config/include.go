package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// maxIncludeDepth bounds how deep included files may include others.
const maxIncludeDepth = 32

// checkIncludes refuses files that include themselves, directly or by way of others: the parser would follow them
// until the stack is full. It also reads each file, so that one that is missing or no regular file is refused by name.
func checkIncludes(path string) error { return followIncludes(path, nil) }

func followIncludes(path string, from []string) error {
	path = filepath.Clean(path)
	chain := append(slices.Clone(from), path)
	if slices.Contains(from, path) {
		return &Fault{File: chain[0], Reason: "files include each other: " + strings.Join(chain, " > ")}
	}
	if len(chain) > maxIncludeDepth {
		return &Fault{File: chain[0], Reason: fmt.Sprintf("files include others more than %d deep: %s", maxIncludeDepth, strings.Join(chain, " > "))}
	}
	data, err := readFile(path)
	if err != nil && len(from) > 0 {
		return fmt.Errorf("reading a file that %s includes: %w", from[len(from)-1], err)
	}
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	for _, name := range includes(string(data)) {
		if err := followIncludes(filepath.Join(filepath.Dir(path), name), chain); err != nil {
			return err
		}
	}
	return nil
}

// includes finds the files that the text includes: the word "include" in either case at the start of a key, white
// space, and a name in quotes or without. Comments and quoted strings are passed over.
func includes(text string) []string {
	var names []string
	atKey := true // whether a word here could be a key
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '#', strings.HasPrefix(text[i:], "//") && atKey:
			i += lineLength(text[i:])
			atKey = true
		case c == '"', c == '\'':
			i += quotedLength(text[i:])
			atKey = false
		case strings.ContainsRune("{}[],;\n\r", rune(c)):
			i++
			atKey = true
		case c == ' ', c == '\t':
			i++
		default:
			word := text[i : i+wordLength(text[i:])]
			i += len(word)
			if rest := text[i:]; atKey && strings.EqualFold(word, "include") && rest != "" && unicode.IsSpace(rune(rest[0])) {
				name, n := includeName(rest)
				if name != "" {
					names = append(names, name)
				}
				i += n
			}
			atKey = false
		}
	}
	return names
}

func lineLength(s string) int {
	if n := strings.IndexAny(s, "\r\n"); n >= 0 {
		return n
	}
	return len(s)
}

// quotedLength measures a quoted string, up to its closing quote.
func quotedLength(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return len(s)
}

func wordLength(s string) int {
	n := strings.IndexFunc(s, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`{}[],;=:"'#`, r) })
	switch {
	case n > 0:
		return n
	case n == 0:
		return 1 // a separator
	default:
		return len(s)
	}
}

// includeName reads the name after the word "include" and tells how many bytes it took.
func includeName(s string) (string, int) {
	start := len(s) - len(strings.TrimLeft(s, " \t"))
	name := s[start:]
	if name == "" {
		return "", start
	}
	if q := name[0]; q == '"' || q == '\'' {
		end := strings.IndexByte(name[1:], q)
		if end < 0 {
			return "", len(s)
		}
		return name[1 : end+1], start + end + 2
	}
	end := strings.IndexAny(name, " \t\r\n;}'")
	if end < 0 {
		end = len(name)
	}
	return name[:end], start + end
}
