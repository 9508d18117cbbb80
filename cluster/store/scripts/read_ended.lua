-- Read ended tokens as of one moment: how many there are, and those from a time on.
-- KEYS  1 ended tokens
-- ARGV  1 from ms
return {redis.call('ZCARD', KEYS[1]), redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], '+inf', 'WITHSCORES')}
