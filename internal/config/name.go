package config

import (
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxNodeName bounds the default node name: a segment of a key has at most 200 bytes.
const maxNodeName = 200

// NodeName is the server's name when none is configured: the host's name, made safe as a segment of a key, and the port
// where it is not the usual one, so that two servers on a host do not take each other for their own earlier start. It is
// the same at every start.
func NodeName(port int) string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return nodeName(host, port)
}

func nodeName(host string, port int) string {
	name := strings.Trim(strings.Map(safeRune, strings.ToLower(host)), "-.")
	if name == "" {
		name = "sluice"
	}
	suffix := ""
	if port > 0 && port != DefaultPort {
		suffix = "-" + strconv.Itoa(port)
	}
	return name[:min(len(name), maxNodeName-len(suffix))] + suffix
}

func safeRune(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
		return r
	default:
		return '-'
	}
}

// DirURL is the URL of the directory store at path. A relative path is taken from the working directory.
func DirURL(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return (&url.URL{Scheme: "dir", Path: filepath.ToSlash(path)}).String()
}

// DirPath is the path in the URL of a directory store: /a for dir:///a, and the relative ./a for dir://./a.
func DirPath(u *url.URL) string {
	return filepath.FromSlash(u.Host + u.Path)
}
