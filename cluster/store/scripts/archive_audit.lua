-- Archive a block of the oldest rows of the audit log; rows of the block before it leave the log.
-- KEYS  1 rows  2 archive
-- ARGV  1 blocks in the archive before  2 first id that stays  3 compressed block
-- Gives 1, or 0 when another process archived meanwhile.
if redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[1]) then
  return 0
end
redis.call('RPUSH', KEYS[2], ARGV[3])
redis.call('XTRIM', KEYS[1], 'MINID', '=', ARGV[2])
return 1
