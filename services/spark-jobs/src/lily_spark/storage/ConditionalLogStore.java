package lily.storage;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.fs.s3a.S3AUtils;

import io.delta.storage.CloseableIterator;
import io.delta.storage.HadoopFileSystemLogStore;

import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Request;
import software.amazon.awssdk.services.s3.model.S3Object;

/**
 * Delta's log on S3 by conditional put (If-None-Match), so that of several writers of one version just one succeeds.
 *
 * None of Delta's own log stores does so: they create with overwrite off, which S3A checks before it writes and not as
 * it writes, unless it is asked by this option. Written for Janino: no lambdas, no inferred types.
 */
public class ConditionalLogStore extends HadoopFileSystemLogStore {
    private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";

    public ConditionalLogStore(Configuration configuration) {
        super(configuration);
    }

    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
            throws IOException {
        byte[] content = joined(actions);
        FileSystem fs = path.getFileSystem(configuration);
        if (overwrite.booleanValue()) {
            put(fs.create(path, true), content);
            return;
        }
        try {
            put((FSDataOutputStream) fs.createFile(path).must(CONDITIONAL, true).build(), content);
        } catch (IOException refused) {
            byte[] held;
            try {
                held = held(path, configuration);
            } catch (FileNotFoundException none) {
                throw refused;
            }
            // An attempt whose answer was lost is refused when it is made again: what is there is then our own.
            if (!Arrays.equals(held, content)) {
                FileAlreadyExistsException taken = new FileAlreadyExistsException(path.toString());
                taken.initCause(refused);
                throw taken;
            }
        }
    }

    /**
     * The files beside `path` from its name on, by a listing that begins there: the one inherited lists the whole log
     * at every look. Delta's own for S3 (S3LogStoreUtil) calls what Hadoop 3.5 no longer has.
     */
    public Iterator<FileStatus> listFrom(Path path, Configuration configuration) throws IOException {
        FileSystem fs = path.getFileSystem(configuration);
        if (!(fs instanceof S3AFileSystem)) {
            return super.listFrom(path, configuration);
        }
        S3AFileSystem s3 = (S3AFileSystem) fs;
        Path from = s3.makeQualified(path);
        Path folder = from.getParent();
        String prefix = s3.pathToKey(folder) + "/";
        String first = from.getName();
        // Listing begins after a name, and `first` is to be listed: so after the one a letter shorter.
        ListObjectsV2Request asked = (ListObjectsV2Request) ListObjectsV2Request.builder().bucket(s3.getBucket())
            .prefix(prefix).delimiter("/").startAfter(prefix + first.substring(0, first.length() - 1)).build();
        long blockSize = s3.getDefaultBlockSize(folder);
        ArrayList<FileStatus> found = new ArrayList<FileStatus>();
        try {
            S3Client client = s3.getS3AInternals().getAmazonS3Client("list the log");
            Iterator objects = client.listObjectsV2Paginator(asked).contents().iterator();
            while (objects.hasNext()) {
                S3Object object = (S3Object) objects.next();
                String name = object.key().substring(prefix.length());
                if (name.compareTo(first) >= 0) {
                    found.add(new FileStatus(object.size().longValue(), false, 1, blockSize,
                        object.lastModified().toEpochMilli(), new Path(folder, name)));
                }
            }
        } catch (SdkException failed) {
            throw S3AUtils.translateException("list", folder, failed);
        }
        if (found.isEmpty() && !s3.exists(folder)) {
            throw new FileNotFoundException("No such file or directory: " + folder);
        }
        return found.iterator();
    }

    public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
        return Boolean.FALSE;
    }

    private static byte[] joined(Iterator<String> actions) {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            byte[] line = ((String) actions.next()).getBytes(StandardCharsets.UTF_8);
            content.write(line, 0, line.length);
            content.write('\n');
        }
        return content.toByteArray();
    }

    private static void put(FSDataOutputStream out, byte[] content) throws IOException {
        out.write(content, 0, content.length);
        out.close();
    }

    private byte[] held(Path path, Configuration configuration) throws IOException {
        CloseableIterator<String> lines = read(path, configuration);
        try {
            return joined(lines);
        } finally {
            lines.close();
        }
    }
}
