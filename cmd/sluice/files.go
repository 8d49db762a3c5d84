package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sluicemq/sluice/internal/config"
)

// stateFiles are the files by which others find the running process: the pid file and the ports file.
type stateFiles struct{ pid, ports string }

// monitored is a server that also tells where its monitoring listens.
type monitored interface{ MonitorURL() string }

// withWebsocket is a server that also tells where WebSocket clients connect.
type withWebsocket interface{ WebsocketURL() string }

// write makes the files that the options ask for, and removes those that an earlier call made elsewhere.
func (s *stateFiles) write(o *config.Options, srv server) error {
	if o.PidFile != "" {
		if err := os.WriteFile(o.PidFile, []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
			return fmt.Errorf("writing pid_file: %w", err)
		}
	}
	ports := portsPath(o.PortsFileDir)
	if ports != "" {
		if err := writePorts(ports, srv); err != nil {
			return fmt.Errorf("writing to ports_file_dir: %w", err)
		}
	}
	var errs []error
	if s.pid != o.PidFile {
		errs = append(errs, removeFile(s.pid))
	}
	if s.ports != ports {
		errs = append(errs, removeFile(s.ports))
	}
	s.pid, s.ports = o.PidFile, ports
	return errors.Join(errs...)
}

// remove is for the end of the process.
func (s *stateFiles) remove(logger *slog.Logger) {
	if err := errors.Join(removeFile(s.pid), removeFile(s.ports)); err != nil {
		logger.Warn("Removing the pid and ports files", "error", err)
	}
}

func removeFile(path string) error {
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// portsPath is <executable>_<pid>.ports, as for nats-server.
func portsPath(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, fmt.Sprintf("%s_%d.ports", filepath.Base(os.Args[0]), os.Getpid()))
}

// writePorts writes nats-server's form. The file appears whole.
func writePorts(path string, srv server) error {
	ports := struct {
		NATS       []string `json:"nats,omitempty"`
		Monitoring []string `json:"monitoring,omitempty"`
		Websocket  []string `json:"websocket,omitempty"`
	}{}
	if u := srv.ClientURL(); u != "" {
		ports.NATS = []string{u}
	}
	if m, ok := srv.(monitored); ok && m.MonitorURL() != "" {
		ports.Monitoring = []string{m.MonitorURL()}
	}
	if w, ok := srv.(withWebsocket); ok && w.WebsocketURL() != "" {
		ports.Websocket = []string{w.WebsocketURL()}
	}
	b, err := json.Marshal(ports)
	if err != nil {
		return err
	}
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, b, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
