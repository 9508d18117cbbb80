-- Append calls of the archive to the book, which is kept to about a number of them.
-- KEYS  1 book
-- ARGV  1 most  2... sealed calls
for i = 2, #ARGV do
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'call', ARGV[i])
end
return #ARGV - 1
