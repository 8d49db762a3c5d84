package segment

import (
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// columnTypes are the physical types of the columns.
var columnTypes = [columns]format.Type{
	seqColumn: format.Int64, timeColumn: format.Int64,
	subjectColumn: format.ByteArray, headersColumn: format.ByteArray, dataColumn: format.ByteArray,
}

// The encodings of the columns; the headers' definition levels are RLE.
var columnEncodings = [columns]format.Encoding{
	seqColumn: format.DeltaBinaryPacked, timeColumn: format.DeltaBinaryPacked,
	subjectColumn: format.Plain, headersColumn: format.Plain, dataColumn: format.Plain,
}

// schemaElements gives the schema, its root first. Subjects are text unless one was not UTF-8: engines refuse every
// query of a column of text that is none, so it then is a column of bytes.
func schemaElements(binarySubjects bool) [1 + columns]format.SchemaElement {
	var out [1 + columns]format.SchemaElement
	out[0] = format.SchemaElement{
		Name:           "message",
		RepetitionType: thrift.New(format.Required),
		NumChildren:    thrift.New(int32(columns)),
	}
	for i := range columns {
		repetition := format.Required
		if i == headersColumn {
			repetition = format.Optional
		}
		out[1+i] = format.SchemaElement{
			Name:           columnNames[i],
			Type:           thrift.New(columnTypes[i]),
			RepetitionType: thrift.New(repetition),
		}
	}
	// Nanoseconds have no converted type.
	out[1+timeColumn].LogicalType.Value = &format.TimestampType{IsAdjustedToUTC: true, Unit: format.TimeUnit{Value: &format.NanoSeconds{}}}
	if !binarySubjects {
		out[1+subjectColumn].LogicalType.Value = &format.StringType{}
		out[1+subjectColumn].ConvertedType = thrift.New(deprecated.UTF8)
	}
	return out
}
