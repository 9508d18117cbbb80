-- Append calls of the archive to their log, which is kept to about a number of them.
-- KEYS  1 log
-- ARGV  1 most  2... sealed calls
for i = 2, #ARGV do
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'call', ARGV[i])
end
return #ARGV - 1
