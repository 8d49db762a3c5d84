package jsapi

const accountInfoSubject = "$JS.API.INFO"

// families are the requests that are answered. Pull requests and direct gets go straight to their stream instead.
var families = []route{
	{accountInfoSubject, schema + "account_info_response", accountInfo},

	{"$JS.API.STREAM.CREATE.*", schema + "stream_create_response", streamCreate},
	{"$JS.API.STREAM.UPDATE.*", schema + "stream_update_response", streamUpdate},
	{"$JS.API.STREAM.NAMES", schema + "stream_names_response", streamNames},
	{"$JS.API.STREAM.LIST", schema + "stream_list_response", streamList},
	{"$JS.API.STREAM.INFO.*", schema + "stream_info_response", streamInfoGet},
	{"$JS.API.STREAM.DELETE.*", schema + "stream_delete_response", streamDelete},
	{"$JS.API.STREAM.PURGE.*", schema + "stream_purge_response", streamPurge},
	{"$JS.API.STREAM.SNAPSHOT.*", schema + "stream_snapshot_response", streamSnapshot},
	{"$JS.API.STREAM.RESTORE.*", schema + "stream_restore_response", streamRestore},
	{"$JS.API.STREAM.MSG.GET.*", schema + "stream_msg_get_response", messageGet},
	{"$JS.API.STREAM.MSG.DELETE.*", schema + "stream_msg_delete_response", messageDelete},

	{"$JS.API.CONSUMER.CREATE.*", schema + "consumer_create_response", consumerCreate},
	{"$JS.API.CONSUMER.CREATE.*.>", schema + "consumer_create_response", consumerCreateNamed},
	{"$JS.API.CONSUMER.DURABLE.CREATE.*.*", schema + "consumer_create_response", consumerCreateDurable},
	{"$JS.API.CONSUMER.NAMES.*", schema + "consumer_names_response", consumerNames},
	{"$JS.API.CONSUMER.LIST.*", schema + "consumer_list_response", consumerList},
	{"$JS.API.CONSUMER.INFO.*.*", schema + "consumer_info_response", consumerInfoGet},
	{"$JS.API.CONSUMER.DELETE.*.*", schema + "consumer_delete_response", consumerDelete},
	{"$JS.API.CONSUMER.PAUSE.*.*", schema + "consumer_pause_response", consumerPause},
	{"$JS.API.CONSUMER.UNPIN.*.*", schema + "consumer_unpin_response", consumerUnpin},
	{"$JS.API.CONSUMER.RESET.*.*", schema + "consumer_reset_response", consumerReset},
}
