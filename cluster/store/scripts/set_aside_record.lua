-- Move a record whose checksum fails to quarantine.
-- KEYS  1 record  2 ids  3 product types  4 ids by type  5 quarantine
-- ARGV  1 record id  2 the broken value  3 noun  4 reason  5 now ms  6 cap of the quarantine  7 most bytes kept
-- Gives 1, or 0 when the record is another one by now.
if redis.call('GET', KEYS[1]) ~= ARGV[2] then
  return 0
end
redis.call('XADD', KEYS[5], 'MAXLEN', '~', ARGV[6], '*', 'kind', 'record', 'noun', ARGV[3], 'id', ARGV[1],
  'reason', ARGV[4], 'at', ARGV[5], 'payload', string.sub(ARGV[2], 1, tonumber(ARGV[7])))
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
local kind = redis.call('HGET', KEYS[3], ARGV[1])
if kind and ARGV[3] == 'product' then
  redis.call('ZREM', KEYS[4], kind .. ARGV[1])
  redis.call('HDEL', KEYS[3], ARGV[1])
end
return 1
