-- Move a field of a hash whose checksum fails to quarantine.
-- KEYS  1 hash  2 quarantine
-- ARGV  1 field  2 the broken value  3 noun  4 reason  5 now ms  6 cap of the quarantine
-- Gives 1, or 0 when the field is another one by now.
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[6], '*', 'kind', 'record', 'noun', ARGV[3], 'id', ARGV[1],
  'reason', ARGV[4], 'at', ARGV[5], 'payload', ARGV[2])
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
