package proto

import (
	"encoding/json"
	"reflect"
	"testing"
)

// TestInfoIsJSON compares what is written by hand with what encoding/json makes of it, one field at a time.
func TestInfoIsJSON(t *testing.T) {
	check := func(i Info) {
		t.Helper()
		want, err := json.Marshal(i)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(i.Append(nil)); got != "INFO "+string(want)+" \r\n" {
			t.Errorf("got  %s\nwant INFO %s", got, want)
		}
	}
	check(Info{})
	all := reflect.ValueOf(&Info{}).Elem()
	for n := range all.NumField() {
		one := reflect.ValueOf(&Info{}).Elem()
		for _, v := range []reflect.Value{one.Field(n), all.Field(n)} {
			switch v.Kind() {
			case reflect.String:
				v.SetString("a\"<é>\n")
			case reflect.Bool:
				v.SetBool(true)
			case reflect.Slice:
				v.Set(reflect.ValueOf([]string{"10.0.0.1:4222", "[::1]:4222"}))
			case reflect.Uint64:
				v.SetUint(1 << 63)
			default:
				v.SetInt(-7)
			}
		}
		check(one.Interface().(Info))
	}
	check(all.Interface().(Info))
}
