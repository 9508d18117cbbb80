-- Read readers' threads and their revisions as they were at one moment.
-- KEYS  1 threads  2 revisions
-- ARGV  user ids, at most 1,000
-- Gives {sealed or nil, ...}, {revision or nil, ...}.
return {redis.call('HMGET', KEYS[1], unpack(ARGV)), redis.call('HMGET', KEYS[2], unpack(ARGV))}
