package monitor

import (
	"html/template"
	"net/http"
	"path"
	"strings"

	"github.com/sluicemq/sluice/internal/version"
)

// rootPage lists the endpoints. The links are relative, so that they hold behind a proxy too.
var rootPage = template.Must(template.New("root").Parse(`<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Sluice {{.Version}}</title></head>
<body style="font-family: ui-sans-serif, system-ui, sans-serif; margin: 2em">
<h1>Sluice</h1>
<p>v{{.Version}}, compatible with NATS {{.NATS}}</p>
<ul>
{{- range .Links}}
<li><a href="{{.Href}}">{{.Text}}</a></li>
{{- end}}
</ul>
</body>
</html>
`))

type link struct{ Path, Href, Text string }

// rootLinks are what a person may want to look at.
var rootLinks = []link{
	{"/varz", "", "General"}, {"/jsz", "", "JetStream"}, {"/connz", "", "Connections"}, {"/accountz", "", "Accounts"},
	{"/accstatz", "", "Account statistics"}, {"/subsz", "", "Subscriptions"}, {"/healthz", "", "Health"}, {"/metrics", "", "Metrics"},
}

func (h *Handler) root(w http.ResponseWriter, _ *http.Request) {
	page := struct {
		Version, NATS string
		Links         []link
	}{Version: version.String(), NATS: version.NATS}
	for _, l := range rootLinks {
		if _, served := h.counts[l.Path]; served {
			// From the page at /base a relative link leads beside "base".
			l.Href = "./" + strings.TrimPrefix(path.Join("/", path.Base("/"+h.base), l.Path), "/")
			page.Links = append(page.Links, l)
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := rootPage.Execute(w, page); err != nil {
		h.logger.Debug("Monitoring: writing the page", "error", err)
	}
}
