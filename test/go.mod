module github.com/sluicemq/sluice/test

go 1.26.0

require github.com/sluicemq/sluice v0.0.0

require golang.org/x/sys v0.50.0 // indirect

replace github.com/sluicemq/sluice => ../
